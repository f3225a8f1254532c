# Each target makes the environments it needs; `make help` lists the targets.
#
#   PYTHON       the Python (3.11 or newer) to make environments with
#   PEERS_VENV   an environment that already holds requirements/peers.txt, used in place of .venv-peers
#   NUM_WORKERS  processes that tests run in
#   ARGS         more arguments for pytest, the demo or the benchmarks

PYTHON ?= python3
NUM_WORKERS ?= 2
ARGS ?=

VENV := .venv
OWN_PEERS_VENV := .venv-peers
BIN := $(VENV)/bin
# Twice quiet: errors only.
PIP_INSTALL := -m pip install -qq --disable-pip-version-check

READY := $(VENV)/.ready
ifeq ($(PEERS_VENV),)
  PEERS := $(abspath $(OWN_PEERS_VENV))
  PEERS_READY := $(OWN_PEERS_VENV)/.ready
else
  PEERS := $(abspath $(PEERS_VENV))
  PEERS_READY :=
  ifeq ($(wildcard $(PEERS)/bin/python),)
    $(error PEERS_VENV is $(PEERS_VENV), where there is no bin/python; name an environment, or unset it to have one made)
  endif
endif

TEST := PEERS_VENV=$(PEERS) $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup check format test soak docs demo bench clean distclean

help:
	@sed -n 's/^\([a-z]*\):.*## /\1|/p' $(firstword $(MAKEFILE_LIST)) | while IFS='|' read -r name text; do \
	  printf '%-10s %s\n' "$$name" "$$text"; done

setup: $(READY) $(PEERS_READY) ## make the environments

check: $(READY) ## formatting, lint, types, rules of imports
	@$(BIN)/ruff format --check --quiet --diff .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(READY) ## put the code into shape, and mend what ruff can mend
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format --quiet .

test: $(READY) $(PEERS_READY) ## all tests but the long ones
	@$(TEST) -q -n $(NUM_WORKERS) --dist worksteal $(ARGS)
	@$(TEST) -q -m alone $(ARGS) || [ $$? = 5 ] # none was asked for

soak: $(READY) $(PEERS_READY) $(VENV)/.fuzz ## the long tests
	@HYPOTHESIS_PROFILE=soak $(TEST) -q -m soak --timeout 3600 $(ARGS)

docs: $(READY) ## the site, in docs/_build; a warning is an error
	@$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html

demo: $(READY) ## the tour, from real text to training batches
	@$(BIN)/python examples/demo.py $(ARGS)

bench: $(READY) $(PEERS_READY) ## the benchmarks
	@PEERS_VENV=$(PEERS) $(BIN)/python benchmarks/run.py $(ARGS)

clean: ## remove caches and build results
	@rm -rf build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find tokenyard tests examples benchmarks -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## remove the environments too
	@rm -rf $(VENV) $(OWN_PEERS_VENV)

define make_venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, $(PYTHON) is " + sys.version.split()[0] + "; choose one with make PYTHON=...")'
	@echo "Making $(1): $(2)"
	@$(PYTHON) -m venv $(1)
endef

$(VENV)/.locked: requirements/test.txt requirements/real-data.txt
	$(call make_venv,$(VENV),tokenyard's tools and tests$(comma) about 2 GB)
	@$(BIN)/python $(PIP_INSTALL) -r requirements/test.txt
	@$(BIN)/python $(PIP_INSTALL) --no-deps -r requirements/real-data.txt
	@touch $@

$(VENV)/.fuzz: requirements/fuzz.txt | $(READY)
	@$(BIN)/python $(PIP_INSTALL) -r requirements/fuzz.txt
	@touch $@

# Again whenever the package's scripts, entry points or version may have changed.
$(READY): $(VENV)/.locked pyproject.toml
	@$(BIN)/python $(PIP_INSTALL) --no-deps -e .
	@touch $@

$(OWN_PEERS_VENV)/.ready: requirements/peers.txt
	$(call make_venv,$(OWN_PEERS_VENV),the official libraries that tests compare with$(comma) about 7 GB)
	@$(OWN_PEERS_VENV)/bin/python $(PIP_INSTALL) -r requirements/peers.txt
	@touch $@

comma := ,

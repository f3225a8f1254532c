"""What importing costs: `import tokenyard` must not bring the large libraries along."""

import json
import pkgutil
import subprocess
import sys

import pytest

import tokenyard


def modules_loaded_by(*imports: str) -> set[str]:
    code = f"import sys, json, importlib; [importlib.import_module(name) for name in {imports!r}]\n"
    code += "print(json.dumps(sorted(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    return set(json.loads(result.stdout))


@pytest.mark.parametrize("large", ["torch", "transformers", "tokenizers", "pyarrow.parquet"])
def test_import_tokenyard_leaves_large_libraries_alone(large: str) -> None:
    assert large not in modules_loaded_by("tokenyard")


def test_the_compiled_loops_are_loaded_with_the_loader_and_not_by_its_first_batch() -> None:
    loops = {"tokenyard.corpus.kernels", "tokenyard.corpus.row_starts", "tokenyard.datasets.spans"}
    assert loops <= modules_loaded_by("tokenyard.datasets.loader")
    assert not loops & modules_loaded_by("tokenyard")


def test_only_what_runs_a_loader_imports_torch() -> None:
    with_torch = (
        "tokenyard.datasets",
        "tokenyard.monitor",
        "tokenyard.doctor",
        "tokenyard.preflight",
        "tokenyard.testing",
    )
    names = [info.name for info in pkgutil.walk_packages(tokenyard.__path__, "tokenyard.")]
    without_torch = [name for name in names if not name.startswith(with_torch)]
    assert "tokenyard.errors" in without_torch
    assert "torch" not in modules_loaded_by(*without_torch)

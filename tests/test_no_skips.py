"""In CI a skipped test is a failed one, wherever the skip stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parent.parent
SKIPPED_TESTS = """
import pytest

def test_that_skips_itself():
    pytest.skip("reason 1")

@pytest.mark.skip(reason="reason 2")
def test_that_is_marked():
    pass

@pytest.fixture
def what_is_missing():
    pytest.skip("reason 3")

def test_that_needs_a_fixture(what_is_missing):
    pass

@pytest.mark.xfail(reason="an expected failure is no skip")
def test_that_is_expected_to_fail():
    assert False
"""
SKIPPED_MODULE = "import pytest\npytest.skip('reason 4', allow_module_level=True)"


def run_pytest(folder: Path, options: list[str], forbid: bool) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "TOKENYARD"))}
    environment |= {"PYTHONPATH": str(REPOSITORY)} | ({"TOKENYARD_FORBID_SKIPS": "1"} if forbid else {})
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", *options]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["one process", "two workers"])
def test_a_skipped_test_fails_and_says_why(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "test_inner.py").write_text(SKIPPED_TESTS)
    result = run_pytest(tmp_path, options, forbid=True)
    assert result.returncode == 1, result.stdout
    assert set(re.findall("TOKENYARD_FORBID_SKIPS is set.*(reason .)", result.stdout)) == {
        "reason 1",
        "reason 2",
        "reason 3",
    }
    assert re.search(r"\b1 xfailed\b", result.stdout)


@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["one process", "two workers"])
def test_a_skipped_module_fails_the_run_and_says_why(tmp_path: Path, options: list[str]) -> None:
    (tmp_path / "test_inner.py").write_text(SKIPPED_MODULE)
    result = run_pytest(tmp_path, options, forbid=True)
    assert result.returncode != 0
    assert re.search("TOKENYARD_FORBID_SKIPS is set.*reason 4", result.stdout), result.stdout


def test_skips_are_fine_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "test_inner.py").write_text(SKIPPED_TESTS)
    (tmp_path / "test_inner_module.py").write_text(SKIPPED_MODULE)
    result = run_pytest(tmp_path, [], forbid=False)
    assert result.returncode == 0, result.stdout
    assert "4 skipped, 1 xfailed" in result.stdout

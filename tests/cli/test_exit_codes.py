"""The exit codes of the command line, which `tokenyard --help` and the README tell."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tokenyard import errors
from tokenyard.cli import app as module
from tokenyard.cli.output import CLOSED_PIPE

CODES = {
    "ConfigError": 2,
    "UnknownFormatError": 2,
    "UnknownTokenizerError": 2,
    "MissingDependencyError": 2,
    "NotACorpusError": 2,
    "DestinationExistsError": 2,
    "SchemaError": 1,
    "DataError": 1,
    "NoTokensError": 1,
    "TransformError": 1,
    "VerificationError": 1,
    "BenchmarkError": 1,
    "StorageError": 1,
    "IncompleteCorpusError": 1,
}
ERRORS = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and name != "TokenyardError"}


@pytest.fixture(autouse=True)
def handlers():
    """Leave signals as they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("name", ERRORS)
def test_each_error_has_its_exit_code(monkeypatch, capsys, name):
    def fail():
        raise ERRORS[name]("what happened")

    monkeypatch.setattr(module, "app", fail)
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert ended.value.code == CODES[name]
    assert capsys.readouterr().err == "error: what happened\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_command_with_128_and_its_number(number, code):
    program = (
        "import os, signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in the background
        "from tokenyard.cli import app as module\n"
        f"module.app = lambda: os.kill(os.getpid(), {int(number)})\n"
        "module.main()"
    )
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (process.returncode, process.stderr) == (code, "")


def test_an_interrupt_that_is_ignored_stays_so(monkeypatch):
    monkeypatch.setattr(module, "app", lambda: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    module.main()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_help_and_readme_tell_every_exit_code():
    told = subprocess.run(
        [sys.executable, "-m", "tokenyard", "--help"], capture_output=True, text=True, timeout=120, check=True
    ).stdout
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    codes = {0, *CODES.values(), 130, 143, CLOSED_PIPE}
    assert set(map(int, re.findall(r"\b\d+\b", told[told.index("Exit codes") :]))) == codes
    rows = re.findall(r"^\| ([\d, ]+) \|", readme[readme.index("Exit codes") :], re.MULTILINE)
    assert {int(code) for row in rows for code in row.split(",")} == codes

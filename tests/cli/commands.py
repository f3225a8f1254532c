"""Commands run in this process: quicker than one of their own, with the same output and the same errors."""

import signal
import sys

import pytest
from typer.testing import CliRunner

from tokenyard.cli import main
from tokenyard.cli.app import app


def run(*arguments):
    """What a command prints on standard output. An error that it ends with is raised."""
    result = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


def end(monkeypatch, capsys, *arguments, code=0):
    """Standard output and standard error of the whole program, errors told, which ends with this exit code."""
    monkeypatch.setattr(sys, "argv", ["tokenyard", *map(str, arguments)])
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        signal.signal(signal.SIGTERM, before)
    said = capsys.readouterr()
    assert (ended.value.code or 0) == code, said.out + said.err
    return said.out, said.err

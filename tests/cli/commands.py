"""Commands run in this process: quicker than one of their own, with the same output and the same errors."""

from typer.testing import CliRunner

from tokenyard.cli.app import app


def run(*arguments):
    """What a command prints on standard output. An error that it ends with is raised."""
    result = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=False, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout

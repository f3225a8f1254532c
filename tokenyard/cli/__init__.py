"""The command line. Thin: every command parses its arguments, calls one public function and prints what it returns."""

from tokenyard.cli.app import main

__all__ = ["main"]

"""Preflight: what would stop or spoil a training run, found before a GPU is started. Reads, and writes nothing."""

from tokenyard.preflight.report import Line, PreflightReport
from tokenyard.preflight.run import preflight

__all__ = ["Line", "PreflightReport", "preflight"]

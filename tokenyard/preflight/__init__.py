"""Preflight: what would stop or spoil a training run, found before a GPU is started.

Nothing is written, but what reading leaves in caches: those of a run's URLs, and of indexes of others' corpora.
"""

from tokenyard.preflight.report import Line, PreflightReport
from tokenyard.preflight.run import preflight

__all__ = ["Line", "PreflightReport", "preflight"]

"""Verification of a corpus: quick or in full, against another one, and by the official library of its format.

What is bad is told by shard and row, and the rest is looked at nevertheless. The good part can be made a corpus of its
own.
"""

from tokenyard.converters.verify.report import Loss, Problem, VerifyReport
from tokenyard.converters.verify.run import verify

__all__ = ["Loss", "Problem", "VerifyReport", "verify"]

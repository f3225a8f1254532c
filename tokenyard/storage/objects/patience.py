"""How long a call to a store is tried again, and what its end says.

A call is a few attempts with pauses between them, which double and are drawn at random, so that many clients that were
turned away at once don't come back at once. What trying again can't mend (no such object, no permission) ends it at
once. An attempt begins only where it can still end before the deadline, so no call takes longer than that.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tokenyard.errors import ConfigError, StorageError, TokenyardError

DEADLINE_VARIABLE = "TOKENYARD_STORAGE_DEADLINE"
_T = TypeVar("_T")
_STATUS = re.compile(r"(?:status code:|status:|HTTP Error) (\d{3})")
#: Answers that another attempt may not get: timeouts and throttling, besides all from 500 on.
_PASSING = {408, 425, 429}


@dataclass(frozen=True, kw_only=True)
class Patience:
    """``deadline``: seconds that one call may take, all attempts together. ``attempts``: how many there may be."""

    deadline: float = 120.0
    attempts: int = 8
    first_pause: float = 0.1
    longest_pause: float = 5.0

    @property
    def attempt_seconds(self) -> float:
        """Seconds that one attempt may take."""
        return self.deadline / 4

    @property
    def stall_seconds(self) -> float:
        """Seconds without a byte, or without a connection, after which an attempt is given up."""
        return min(10.0, self.deadline / 8)


def patience_of_environment() -> Patience:
    """As long as ``TOKENYARD_STORAGE_DEADLINE`` (seconds) allows, where it is set. Raises ConfigError."""
    text = os.environ.get(DEADLINE_VARIABLE)
    if not text:
        return Patience()
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ConfigError(f"{DEADLINE_VARIABLE} is {text!r}; expected the seconds that a call to a store may take")
    return Patience(deadline=seconds)


class CutError(Exception):
    """An answer that is not all that was asked for."""


def call(patience: Patience, what: str, attempt: Callable[[int], _T]) -> _T:
    """What ``attempt(number)`` returns, tried again while that may help.

    ``what``: "can't read URL", for the error. Raises StorageError that names the attempts, the cause and the way out,
    FileNotFoundError, errors of ours and what obstore says of conditions as they come.
    """
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

    begun = time.monotonic()
    for number in range(1, patience.attempts + 1):
        try:
            return attempt(number)
        except (FileNotFoundError, AlreadyExistsError, PreconditionError, TokenyardError):
            raise
        except (BaseError, OSError, ValueError, CutError) as e:
            took = time.monotonic() - begun
            text = str(e)
            pause = random.uniform(0.5, 1) * min(patience.first_pause * 2 ** (number - 1), patience.longest_pause)
            late = took + pause + patience.attempt_seconds > patience.deadline
            if late or number == patience.attempts or not _may_pass(e, text):
                tried = f"{number} attempt{'s' * (number > 1)} in {took:.1f} s"
                raise StorageError(f"{what}: {_cause(text)} ({tried}); {_way_out(text, patience)}") from e
            time.sleep(pause)
    raise AssertionError("no attempt was allowed")


def _status(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found.group(1)) if found else None


def _may_pass(error: Exception, text: str) -> bool:
    """Whether another attempt may fare better."""
    from obstore.exceptions import GenericError

    status = _status(text)
    if status is not None:
        return (status >= 500 and status != 501) or status in _PASSING
    # Addresses of the clouds' own metadata servers: where there is none, there are no credentials.
    if "169.254.169.254" in text or "metadata.google.internal" in text:
        return False
    return isinstance(error, GenericError | TimeoutError | ConnectionError | CutError)


def _cause(text: str) -> str:
    """The first words of what obstore says, without the request and the inner workings."""
    short = text.split("\n\nDebug source", 1)[0]
    code = re.search(r"<Code>([^<]+)</Code>", short)
    if (status := _status(short)) is not None:
        reason = re.search(rf"{status} ([A-Z][A-Za-z ]+)", short)
        told = [reason.group(1).strip()] if reason else []
        told += [code.group(1)] if code else []
        return " ".join([f"the store answered {status}", *(f"({t})" for t in told)])
    for words, plain in _PLAIN.items():
        if words in text:
            return plain
    return re.sub(r"\s+", " ", short)[:300]


_PLAIN = {
    "Connection refused": "no server answers there (connection refused)",
    "dns error": "no server of that name (DNS)",
    "ConnectTimeout": "no connection in time",
    "operation timed out": "no answer in time",
    "TimedOut": "no answer in time",
    "IncompleteMessage": "the answer was cut",
    "end of file before message length reached": "the answer was cut",
    "UnexpectedEof": "the answer was cut",
    "ConnectionReset": "the connection was reset",
    "Connection reset": "the connection was reset",
    "BrokenPipe": "the connection was closed",
    "169.254.169.254": "no credentials were found",
    "metadata.google.internal": "no credentials were found",
}


def _way_out(text: str, patience: Patience) -> str:
    status = _status(text)
    if status in (401, 403) or "169.254.169.254" in text or "metadata.google.internal" in text:
        return (
            "check the credentials in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
            "GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, HF_TOKEN) and "
            "what they allow; for a public bucket set AWS_SKIP_SIGNATURE=true (GOOGLE_, AZURE_)"
        )
    if status == 404:
        return "check the URL: bucket or repository, revision, folder"
    if status in (301, 307, 400) or "redirect" in text:
        return "check the region (AWS_REGION) and the endpoint (AWS_ENDPOINT_URL)"
    if status in (429, 503):
        return (
            f"the store is busy: use fewer workers, or wait longer ({DEADLINE_VARIABLE}, seconds, now "
            f"{patience.deadline:g})"
        )
    if "Connection refused" in text or "dns error" in text:
        return "check the URL and the endpoint (AWS_ENDPOINT_URL)"
    return f"run it again; to wait longer set {DEADLINE_VARIABLE} (seconds, now {patience.deadline:g})"

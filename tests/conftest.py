"""What all tests share: Hypothesis profiles, the rule on skips, the peers' environment."""

import os
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import peers
from tests.servers.faulty import Proxy, proxy
from tests.servers.s3 import S3Server, s3_server

# Real tokenizers come from installed packages; nothing asks a hub.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# Machines differ in speed: no deadline for an example. CI tries the same examples every time; soak looks for new ones.
ANY_SPEED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("default", settings(**ANY_SPEED, max_examples=50))
settings.register_profile(
    "ci", settings(**ANY_SPEED, max_examples=50, derandomize=True, print_blob=True, database=None)
)
settings.register_profile("soak", settings(**ANY_SPEED, max_examples=5_000, print_blob=True))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default"))

FORBID_SKIPS = bool(os.environ.get("TOKENYARD_FORBID_SKIPS"))


def fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if FORBID_SKIPS and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"TOKENYARD_FORBID_SKIPS is set, and this was skipped. {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    fail_if_skipped(report)
    return report


@pytest.fixture(scope="session")
def peers_python() -> Path:
    """The Python of the environment that holds the official libraries."""
    return peers.find_python()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A running S3 server."""
    with s3_server() as server:
        yield server


@pytest.fixture
def bucket(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty bucket; the environment leads to its server."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3.make_bucket()}"


@pytest.fixture
def faulty(s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy in front of the S3 server, to which the environment leads; see ``bucket``."""
    with proxy(s3.port) as state:
        monkeypatch.setenv("AWS_ENDPOINT_URL", state.url)
        yield state


@pytest.fixture
def served_first() -> Iterator[None]:
    """What a test begins has the cores before other work has them, where the system lets it (root may)."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    yield
    os.setpriority(os.PRIO_PROCESS, 0, before)

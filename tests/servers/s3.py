"""A running S3 server on 127.0.0.1: moto's, a process of its own."""

from __future__ import annotations

import sys
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.servers.processes import server_process

#: What any S3 client takes from the environment; moto believes every key.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@dataclass(frozen=True)
class S3Server:
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead a client here."""
        return {**CREDENTIALS, "AWS_ENDPOINT_URL": self.url}

    def make_bucket(self) -> str:
        """The name of a new bucket."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/{name}", method="PUT"), timeout=60):
            return name


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Start one, and end it."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with server_process(command, r"Running on http://127\.0\.0\.1:(\d+)") as port:
        yield S3Server(port)

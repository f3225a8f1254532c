"""A running Azure Blob server on 127.0.0.1: Azurite's, a process of its own (`npm install -g azurite`)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate

from tests.servers.processes import server_process

#: Those of every Azurite: https://learn.microsoft.com/azure/storage/common/storage-connect-azurite
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_VERSION = "2021-08-06"


@dataclass(frozen=True)
class Azurite:
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{_ACCOUNT}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that lead a client here."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": _KEY,
            "AZURE_STORAGE_ENDPOINT": self.url,
        }

    def make_container(self) -> str:
        """The name of a new container."""
        name, date = f"container-{uuid.uuid4().hex[:12]}", formatdate(usegmt=True)
        signed = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{_VERSION}\n/{_ACCOUNT}/{_ACCOUNT}/{name}\n"
        signature = hmac.digest(base64.b64decode(_KEY), f"{signed}restype:container".encode(), hashlib.sha256)
        headers = {
            "x-ms-date": date,
            "x-ms-version": _VERSION,
            "Authorization": f"SharedKey {_ACCOUNT}:{base64.b64encode(signature).decode()}",
        }
        request = urllib.request.Request(f"{self.url}/{name}?restype=container", method="PUT", headers=headers)
        with urllib.request.urlopen(request, timeout=60):
            return name


@contextmanager
def azurite() -> Iterator[Azurite]:
    """Start one, and end it."""
    options = ["--blobHost", "127.0.0.1", "--blobPort", "0", "--inMemoryPersistence", "--skipApiVersionCheck"]
    command = ["azurite-blob", *options, "--disableTelemetry"]
    with server_process(command, r"listens on http://127\.0\.0\.1:(\d+)") as port:
        yield Azurite(port)

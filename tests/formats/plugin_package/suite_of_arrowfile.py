"""The suite that every format must pass, run on the plugin where it is installed."""

from typing import ClassVar

from tokenyard.testing import FormatSuite


class TestArrowFile(FormatSuite):
    format = "arrowfile"
    options: ClassVar = {"raw": {}, "zstd": {"compression": "zstd"}}
    expected_mapped: ClassVar = {"raw": True, "zstd": False}

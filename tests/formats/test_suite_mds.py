from typing import ClassVar

from tokenyard.testing import FormatSuite


class TestMds(FormatSuite):
    format = "mds"
    options: ClassVar = {
        "raw": {},
        "zstd": {"compression": "zstd"},
        "gz": {"compression": "gz"},
        "br": {"compression": "br"},
        "snappy": {"compression": "snappy"},
    }
    expected_mapped: ClassVar = {"raw": True, "zstd": False, "gz": False, "br": False, "snappy": False}

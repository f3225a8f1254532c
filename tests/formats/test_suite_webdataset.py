from typing import ClassVar

from tokenyard.testing import FormatSuite


class TestWebDataset(FormatSuite):
    format = "webdataset"
    options: ClassVar = {"raw": {}, "gz": {"compression": "gz"}}
    expected_mapped: ClassVar = {"raw": True, "gz": False}

from typing import ClassVar

from tokenyard.testing import FormatSuite


class TestParquet(FormatSuite):
    format = "parquet"
    options: ClassVar = {
        "defaults": {},
        "small row groups": {"row_group_rows": 8},
        "lz4": {"compression": "lz4"},
        "uncompressed": {"compression": "none"},
    }
    expected_mapped = False

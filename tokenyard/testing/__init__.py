"""The suite that every storage format must pass, for packages that bring one of their own. Needs pytest and hypothesis.

Subclass it in a test module; every test runs once for each variant of the writer's options::

    from tokenyard.testing import FormatSuite


    class TestArrowFile(FormatSuite):
        format = "arrowfile"
        options = {"raw": {}, "zstd": {"compression": "zstd"}}
        expected_mapped = {"raw": True, "zstd": False}
"""

import pytest

for _module in ("access", "base", "compare", "damage", "native", "round_trips"):
    pytest.register_assert_rewrite(f"tokenyard.testing.{_module}")

from tokenyard.testing.suite import FormatSuite  # noqa: E402

__all__ = ["FormatSuite"]

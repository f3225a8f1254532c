from tokenyard.testing import FormatSuite


class TestJsonl(FormatSuite):
    format = "jsonl"
    expected_mapped = False

from tokenyard.testing import FormatSuite


class TestCsv(FormatSuite):
    format = "csv"
    expected_mapped = False

from tokenyard.testing import FormatSuite


class TestNpy(FormatSuite):
    format = "npy"
    expected_mapped = True
    rows_need_index = True

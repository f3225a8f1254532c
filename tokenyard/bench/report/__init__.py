"""The report as one HTML page that needs nothing else: `report_page`."""

from tokenyard.bench.report.page import report_page

__all__ = ["report_page"]

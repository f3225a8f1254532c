"""Storage formats measured on the user's own corpus and disk: `run_bench` measures, `report_page` draws.

Every figure is measured in a fresh process, formats in turn, round after round, so that memory is honest and what
disturbs the machine disturbs all of them.
"""

from tokenyard.bench.report import report_page
from tokenyard.bench.results import BenchReport
from tokenyard.bench.run import run_bench
from tokenyard.bench.settings import BenchSettings, PeersSettings

__all__ = ["BenchReport", "BenchSettings", "PeersSettings", "report_page", "run_bench"]

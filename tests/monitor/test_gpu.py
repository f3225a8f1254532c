"""On a machine with an NVIDIA GPU: `pytest -m gpu`."""

import time

import pytest
import torch

import tokenyard
from tests.monitor.runs import loader_of, write

pytestmark = pytest.mark.gpu


def reports_of(path, step, *, windows=3, **options):
    with tokenyard.Monitor(loader_of(path, **options), every_seconds=2.0, quiet=True) as monitor:
        while len(monitor.reports) < windows:
            for batch in monitor:
                step(batch)
                if len(monitor.reports) >= windows:
                    break
    return list(monitor.reports)[1:]


def test_a_gpu_that_computes_all_the_time_is_seen_to_be_busy(tmp_path):
    matrix = torch.randn(4096, 4096, device="cuda")

    def step(batch):
        batch["input_ids"].to("cuda", non_blocking=True)
        for _ in range(50):
            matrix.matmul(matrix)
        torch.cuda.synchronize()

    reports = reports_of(write(tmp_path / "c"), step)
    assert all(report.figures.gpu.utilisation > 80 for report in reports)
    assert [report.verdict for report in reports] == [None] * len(reports)


def test_a_gpu_that_idles_in_the_step_is_not_the_loaders_fault(tmp_path):
    def step(batch):
        batch["input_ids"].to("cuda")
        time.sleep(0.02)

    reports = reports_of(write(tmp_path / "c"), step)
    assert all(report.figures.gpu.utilisation < 80 for report in reports)
    assert {report.verdict.kind for report in reports} == {"not the loader"}

"""How often each corpus is gone through by the planned steps.

Up to some four epochs of the same text are worth about as much as new text; what comes after is worth less and less:
Muennighoff et al., Scaling Data-Constrained Language Models, 2023, https://arxiv.org/abs/2305.16264.
"""

from __future__ import annotations

from collections.abc import Iterator

from tokenyard.datasets.run_report import SourceReport, run_report
from tokenyard.display.quantities import percent
from tokenyard.preflight.planned import Planned
from tokenyard.preflight.report import Line, passed, warned

#: Epochs from which on repeated text teaches clearly less.
_MOST_EPOCHS = 4


def epoch_lines(planned: Planned) -> Iterator[Line]:
    """Tell of each source how often it is gone through. Raises ConfigError, StorageError, DataError."""
    report = run_report(planned.batches, planned.dataset, planned.steps)
    over = f"in {report.steps:,} steps" + ("" if planned.steps_are_given else " (--steps plans others)")
    is_mixture = len(planned.dataset.corpora) > 1
    for source in report.sources:
        told = f"{source.epochs:.3g} epochs {over}: {source.samples:,} samples, {percent(source.share_samples)} of all"
        yield _line(source, told, source.name if is_mixture else None)


def _line(source: SourceReport, told: str, name: str | None) -> Line:
    if not source.samples:
        return warned(
            "epochs",
            f"not begun: {told}",
            "raise its weight, plan more steps, or leave it out" if name else "plan more steps, or smaller batches",
            source=name,
        )
    if source.epochs > _MOST_EPOCHS:
        return warned(
            "epochs",
            f"repeated more than {_MOST_EPOCHS} times: {told}",
            f"{'lower its weight, ' * (name is not None)}add data, or plan fewer steps: what is repeated more often "
            "teaches less",
            source=name,
        )
    return passed("epochs", told, source=name)

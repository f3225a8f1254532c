"""Whether a loader's state would load: on these corpora, with these settings, at these ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenyard.errors import ConfigError
from tokenyard.preflight.planned import Planned
from tokenyard.preflight.report import Line, failed, passed, warned


def resume_line(planned: Planned, state: Mapping[str, Any]) -> Line:
    """Try to go on from a state, without reading a token."""
    try:
        batches, step = planned.batches.resumed(state, new_segment=False)
        batches.check(step)
    except ConfigError as e:
        return failed("resume", str(e))
    found = f"goes on at step {step:,}, in epoch {batches.epoch_of(step)}"
    if past := state.get("micro_batches_past"):
        return warned(
            "resume",
            f"{found}; {past} micro-batches of that step were given out already, and come again",
            "take states between optimizer steps, if gradients of these were kept",
        )
    return passed("resume", found)

"""What the state of a run with a token budget says beside the state of its order, as JSON values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from tokenyard.datasets.budget_scan import Mark
from tokenyard.datasets.order.budget import Budget
from tokenyard.datasets.order.plan import Plan
from tokenyard.datasets.order.state import VERSION, State, first_problem, to_json
from tokenyard.errors import ConfigError

KEY = "token_budget"


@dataclass(frozen=True, kw_only=True)
class BudgetState:
    """What stands under `token_budget`.

    Attributes:
        tokens: the budget.
        micro_batches: that of the budget.
        now: the step at which the state was taken.
        since: the step from which on the settings were those of that step.
    """

    tokens: int
    micro_batches: int
    now: Mark
    since: Mark


# Of a mapping, as the settings of an adapter don't hold for a dataclass itself.
_STATES = TypeAdapter(dict[str, BudgetState], config=ConfigDict(strict=True, extra="forbid"))


def budget_to_json(plan: Plan, budget: Budget, now: Mark, since: Mark) -> dict[str, Any]:
    """Return the state of a run: that of its order, whose steps are draws, but for `step` and `token_budget`."""
    told = BudgetState(tokens=budget.tokens, micro_batches=budget.micro_batches, now=now, since=since)
    return {**to_json(plan, now.position), "step": now.step, KEY: asdict(told)}


def budget_from_json(state: object) -> tuple[State, BudgetState]:
    """Read what `budget_to_json` gave: the state of the order, and what it says of the budget.

    Raises:
        ConfigError: it belongs to a run without a budget, is of another version, damaged, or was changed by hand; the
            message names the key.
    """
    if not isinstance(state, Mapping) or state.get("version") != VERSION or KEY not in state:
        State.from_json(state)  # says what is wrong with what is no state, or one of another release
        raise ConfigError(
            "state: it was taken of a run with order.global_batch_size, but there is order.token_budget; go on with "
            "the settings of that run, or begin another one"
        )
    try:
        told = _STATES.validate_json(json.dumps({KEY: state[KEY]}))[KEY]
    except (ValidationError, TypeError) as e:
        raise _damaged(first_problem(e)) from None
    now, since = told.now, told.since
    if now.step != state.get("step"):
        raise _damaged(f"{KEY}.now.step is {now.step}, but step is {state.get('step')!r}")
    for early, late, name in ((since, now, "since"), (now.of_epoch, now, "now.epoch_step")):
        if not 0 <= early.step <= late.step or not 0 <= early.position <= late.position:
            raise _damaged(f"{KEY}.{name} lies after now, or before the run")
        if (early.step == late.step) != (early.position == late.position):
            raise _damaged(f"{KEY}.{name} is the same as now in one of step and position alone")
    found = State.from_json({**state, "step": now.position})
    plan = Plan(found.segments)
    for mark, name in ((now, "now"), (since, "since")):
        _check_epoch(plan, mark, name)
    return found, told


def _check_epoch(plan: Plan, mark: Mark, name: str) -> None:
    """Refuse a mark whose epoch is not that of its draw, or doesn't begin where that one does."""
    epoch = plan.epoch_of(mark.position)
    if mark.epoch != epoch:
        raise _damaged(f"{KEY}.{name}.epoch is {mark.epoch}, but its draw lies in epoch {epoch}")
    first = plan.epoch_range(epoch)[0]
    # In a mixture a step of the epoch before may reach into it.
    if mark.epoch_position < first or (mark.epoch_position > first and not plan.segments[0].is_mixture):
        raise _damaged(
            f"{KEY}.{name}.epoch_position is {mark.epoch_position}, but epoch {epoch} begins at draw {first}"
        )


def _damaged(what: str) -> ConfigError:
    return ConfigError(f"state: {what}; give what state_dict() gave, unchanged")

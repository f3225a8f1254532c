"""What the command order prints: the plan, a step, a row, digests; each as a table or as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from tokenyard.cli.output import print_fields, print_json, print_table

if TYPE_CHECKING:
    from tokenyard.datasets.occurrences import RowEpoch, RowReport
    from tokenyard.datasets.order.budget import Budget
    from tokenyard.datasets.order.plan import Plan
    from tokenyard.datasets.order.segment import Segment
    from tokenyard.datasets.receipt import Piece, Receipt, Slot
    from tokenyard.datasets.run_report import RunReport


def show_step(found: Receipt, digest: str | None, json: bool) -> None:
    """Print what is in a step, and its digest where it was asked for."""
    if json:
        print_json(asdict(found) | _asked(digest))
        return
    said = {"epoch": found.epoch, "slots": found.global_batch_size, "ranks": found.world_size, "digest": digest}
    print_fields(f"step {found.step}", said)
    header = ("slot", "rank", "micro-batch", "source", "epoch", "sample", "tokens", "rows", "documents", "shards", "")
    numbered = any(piece.document for slot in found.slots for piece in slot.pieces)
    print_table(header, [_slot_line(slot, numbered) for slot in found.slots])


def show_row(found: RowReport, json: bool) -> None:
    """Print at which steps a row is seen."""
    if json:
        print_json(asdict(found))
        return
    how = "arithmetic and the lengths of other rows" if found.by_scanning else "arithmetic"
    print_fields(f"row {found.row} of {found.source}", {"tokens": found.num_tokens, "found by": how})
    lines = [line for epoch in found.epochs for line in _epoch_lines(epoch)]
    print_table(("epoch", "step", "slot", "sample", "tokens of the row"), lines)


def show_digests(first: int, of_steps: Sequence[str], of_all: str, json: bool) -> None:
    """Print the digest of each step from `first` on, and of all."""
    stop = first + len(of_steps)
    if json:
        print_json({"first_step": first, "stop_step": stop, "digest": of_all, "steps": of_steps})
        return
    print_table(("step", "digest"), [(str(first + i), digest) for i, digest in enumerate(of_steps)])
    print_fields(f"steps {first} .. {stop - 1}", {"digest": of_all})


def show_plan(
    samples: Mapping[str, int],
    epoch_steps: int | None,
    plan: Plan,
    budget: Budget | None,
    report: RunReport,
    digest: str | None,
    json: bool,
) -> None:
    """Print the plan of a run, and what its first steps take of each source.

    Args:
        samples: of each corpus, by its name.
        epoch_steps: steps of the first epoch; None where it has no end.
        plan: the segments.
        budget: the token budget, under which the plan's steps are draws; None where there is none.
        report: what the first steps take.
        digest: of these steps, where it was asked for.
        json: whether to print JSON.
    """
    if json:
        taken = asdict(report)
        said = {"samples": samples, "steps_per_epoch": epoch_steps, "steps": taken.pop("steps")} | _asked(digest)
        said |= {"token_budget": None if budget is None else asdict(budget)}
        said |= {"segments": [_segment(segment, budget) for segment in plan.segments], "sources": taken.pop("sources")}
        print_json(said | {"run_samples": taken.pop("samples"), "run_tokens": taken.pop("tokens")} | taken)
        return
    sizes = ", ".join(f"{name} {size:,}" for name, size in samples.items())
    print_fields(
        "plan",
        {
            "samples": sizes,
            "steps an epoch": "no end" if epoch_steps is None else epoch_steps,
            "a step": None if budget is None else f"{budget.micro_batches} micro-batches of {budget.tokens} tokens",
        },
    )
    _print_segments(plan, budget)
    _print_report(f"steps 0 .. {report.steps - 1}", report, digest)


def _asked(digest: str | None) -> dict[str, object]:
    return {} if digest is None else {"digest": digest}


def _segment(segment: Segment, budget: Budget | None) -> dict[str, object]:
    """Return a segment as JSON values; under a budget it begins at a draw, and has no global batch."""
    said = asdict(segment)
    if budget is not None:
        said["first_draw"] = said.pop("first_step")
        del said["global_batch_size"]
    return said


def _print_segments(plan: Plan, budget: Budget | None) -> None:
    header = (
        "from step" if budget is None else "from draw",
        "global batch",
        "seq_len",
        "last batch",
        "shuffle",
        "seed",
        "block",
        "window",
        "lanes",
        "draws",
    )
    print_table(header, [_segment_line(segment, budget) for segment in plan.segments])


def _segment_line(segment: Segment, budget: Budget | None) -> tuple[str, ...]:
    order = segment.order
    weights = sum(source.weight for source in segment.sources)
    shares = " ".join(f"{source.name}:{source.weight / weights:.4g}" for source in segment.sources)
    return (
        str(segment.first_step),
        str(segment.global_batch_size) if budget is None else "budget",
        "rows" if segment.seq_len is None else str(segment.seq_len),
        segment.last_batch,
        order.shuffle,
        str(order.seed),
        str(order.block_samples),
        str(order.window_blocks),
        str(order.lanes),
        shares if segment.is_mixture else "all",
    )


def _print_report(title: str, report: RunReport, digest: str | None) -> None:
    print_fields(
        title,
        {
            "samples": report.samples,
            "tokens": round(report.tokens),
            "the run ends": _end(report),
            "digest": digest,
        },
    )
    header = ("source", "samples", "tokens", "share asked", "share", "of tokens asked", "of tokens", "epochs", "at end")
    lines = [
        (
            source.name,
            f"{source.samples:,}",
            f"{source.tokens:,.0f}",
            f"{source.asked_samples:.4%}",
            f"{source.share_samples:.4%}",
            f"{source.asked_tokens:.4%}",
            f"{source.share_tokens:.4%}",
            f"{source.epochs:.4f}",
            source.at_end if source.max_epochs is None else f"{source.at_end} after {source.max_epochs}",
        )
        for source in report.sources
    ]
    print_table(header, lines)


def _end(report: RunReport) -> str | None:
    if report.ended_by is None:
        return None
    return f"{'later' if report.end is None else f'before step {report.end}'}, by source {report.ended_by}"


def _slot_line(slot: Slot, numbered: bool) -> tuple[str, ...]:
    rows = [piece.row for piece in slot.pieces]
    return (
        str(slot.slot),
        str(slot.rank),
        str(slot.micro_batch),
        slot.source,
        str(slot.epoch),
        str(slot.sample),
        f"{slot.start}..{slot.stop}",
        _span(rows) if rows else "-",
        _documents(slot.pieces, numbered),
        ", ".join(dict.fromkeys(piece.shard for piece in slot.pieces)) or "-",
        "padding" if slot.is_padding else "",
    )


def _documents(pieces: Sequence[Piece], numbered: bool) -> str:
    """Say which documents: numbered inside their rows, as row/number, or as rows where each is one."""
    of_rows: dict[int, list[int]] = {}
    for piece in pieces:
        if piece.document is None:
            return "not told"
        of_rows.setdefault(piece.row, []).append(piece.document)
    if not of_rows:
        return "-"
    if not numbered:
        return _span(list(of_rows))
    return ", ".join(f"{row}/{_span(numbers)}" for row, numbers in of_rows.items())


def _span(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if numbers[0] == numbers[-1] else f"{numbers[0]}-{numbers[-1]}"


def _epoch_lines(epoch: RowEpoch) -> list[tuple[str, ...]]:
    seen = [(str(epoch.epoch), str(o.step), str(o.slot), str(o.sample), f"{o.start}..{o.stop}") for o in epoch.seen]
    left = [(str(epoch.epoch), "left out", "-", "-", f"{start}..{stop}") for start, stop in epoch.left_out]
    return [*seen, *left] or [(str(epoch.epoch), "no tokens", "-", "-", "-")]

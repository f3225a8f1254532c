"""What sections share: links to the commands behind a figure."""

from __future__ import annotations

from tokenyard.bench.results import BenchReport, VariantResult


def is_chosen(found: BenchReport, result: VariantResult) -> bool:
    """Whether this is the first choice, which stands out everywhere."""
    return bool(found.choices) and found.choices[0].variant == result.variant.spec


def anchor(found: BenchReport, spec: str) -> str:
    """The link to the commands of a variant, by its name."""
    key = next(result.variant.key for result in found.variants if result.variant.spec == spec)
    return f"#cmd-{key}"

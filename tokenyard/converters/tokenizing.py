"""One task of tokenizing, texts to shards; and the records that are no documents, counted over all tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tokenyard.converters.encoding import CutDocument, Encoding, cut, encode_documents
from tokenyard.converters.job import Target, TaskOutput, write_shards
from tokenyard.converters.text import BadRecord, Split, TextOptions, place_in_file, read_split
from tokenyard.errors import DataError

OnBadRecord = Literal["error", "skip"]


@dataclass(frozen=True, kw_only=True)
class Tokenizing:
    """What all tasks share."""

    encoding: Encoding
    texts: TextOptions
    target: Target
    on_bad_record: OnBadRecord
    max_bad_records: int


def tokenize_splits(job: Tokenizing, task: tuple[int, tuple[Split, ...]]) -> TaskOutput:
    """Write the documents of some splits as the shards of a task."""
    number, splits = task
    counts: dict[str, int] = {}
    documents = _good_documents(job, splits, counts)
    shards, leaves = write_shards(
        job.target, number, encode_documents(job.encoding, documents, job.target.schema, counts)
    )
    return TaskOutput(shards=shards, leaves=leaves, num_bytes=sum(s.num_bytes for s in splits), counts=counts)


def _good_documents(job: Tokenizing, splits: Sequence[Split], counts: dict[str, int]) -> Iterator[CutDocument]:
    for split in splits:
        for found in read_split(split, job.texts):
            record = found if isinstance(found, BadRecord) else cut(job.encoding, found)
            if isinstance(record, CutDocument):
                yield record
                continue
            if job.on_bad_record == "error":
                way = "name the key of the text with text_field (--text text_field=...), " * (
                    record.kind == "missing_text"
                )
                raise DataError(f"{_in_file(record)}; {way}mend it, or pass on_bad_record=skip (--on-bad-record skip)")
            kind = f"bad:{record.kind}"
            counts[kind] = counts.get(kind, 0) + 1
            if num_bad(counts) > job.max_bad_records:
                raise _too_many(job.max_bad_records, record)


class BadRecords:
    """Counts those of all tasks. ``limit``: how many there may be; None where each is an error."""

    def __init__(self, limit: int | None) -> None:
        self._limit = limit
        self._found = 0

    def add(self, output: TaskOutput) -> None:
        """Raise DataError where there are too many."""
        self._found += num_bad(output.counts)
        if self._limit is None and self._found:
            raise DataError(
                f"{self._found} bad records were skipped when this job was run before; go on with on_bad_record=skip "
                "(--on-bad-record skip), or begin anew at another place"
            )
        if self._limit is not None and self._found > self._limit:
            raise _too_many(self._limit, None)


def _too_many(limit: int, last: BadRecord | None) -> DataError:
    seen = f"; the last: {_in_file(last)}" if last else ""
    return DataError(
        f"more than {limit} bad records{seen}; mend the input, or raise max_bad_records (--max-bad-records)"
    )


def _in_file(record: BadRecord) -> BadRecord:
    """The record with the line that an editor would show, for a message: finding it reads the file up to there."""
    return replace(record, place=place_in_file(record.place))


def num_bad(counts: Mapping[str, int]) -> int:
    """Records that were skipped, of all kinds."""
    return sum(n for name, n in counts.items() if name.startswith("bad:"))

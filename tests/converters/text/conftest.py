"""What the tests of text sources share."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tokenyard.converters.text import BadRecord, Document, TextOptions, plan_texts, read_split

Read = Callable[..., list[Document | BadRecord]]


@pytest.fixture
def read() -> Read:
    """Plan and read inputs; keyword arguments are options."""

    def read_all(inputs: object, **options: object) -> list[Document | BadRecord]:
        checked = TextOptions(**options)
        splits = plan_texts(inputs, checked).splits
        return [record for split in splits for record in read_split(split, checked)]

    return read_all


@pytest.fixture
def texts(read: Read) -> Callable[..., list[str]]:
    """Like `read`, for inputs without a bad record: the texts alone."""

    def read_texts(inputs: object, **options: object) -> list[str]:
        records = read(inputs, **options)
        assert [str(record) for record in records if isinstance(record, BadRecord)] == []
        return [record.text for record in records if isinstance(record, Document)]

    return read_texts


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str, bytes], Path]:
    """Write a file into the test's folder."""

    def write(name: str, data: bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    return write

"""Names of formats: unique, listed, and every module that defines a format is registered."""

import importlib
import pkgutil
from pathlib import Path

import pytest

import tokenyard.formats
from tokenyard.errors import ConfigError, UnknownFormatError
from tokenyard.formats import registry
from tokenyard.formats.base import Format, FormatOptions
from tokenyard.formats.npy import Npy
from tokenyard.formats.registry import format_names, get_format, register
from tokenyard.schema import Schema
from tokenyard.storage import Folder


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is registered in a test is gone afterwards."""
    monkeypatch.setattr(registry, "_registered", {})


class Other(Npy):
    name = "other"


def test_the_formats_of_tokenyard_are_listed() -> None:
    assert format_names()[:6] == ("mds", "npy", "webdataset", "parquet", "jsonl", "csv")


def test_every_module_that_defines_a_format_is_registered() -> None:
    names = [m.name for m in pkgutil.iter_modules(tokenyard.formats.__path__, "tokenyard.formats.")]
    modules = [importlib.import_module(n) for n in names]
    found = [m.FORMAT for m in modules if hasattr(m, "FORMAT")]
    assert len(found) >= 6
    for format in found:
        assert get_format(format.name) is format
    assert {f.name for f in found} == set(format_names())
    assert len({f.suffix for f in found}) == len(found)


@pytest.mark.parametrize("name", ["mds", "npy", "webdataset", "parquet", "jsonl", "csv"])
def test_a_format_is_one_instance_with_a_name_and_words(name: str) -> None:
    format = get_format(name)
    assert isinstance(format, Format)
    assert format.name == name
    assert format is get_format(name)
    assert format.suffix.startswith(".")
    assert format.summary


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("npz", "did you mean 'npy'[?] registered are mds, npy"),
        ("parqet", "did you mean 'parquet'"),
        ("zarr", "registered are mds"),
    ],
)
def test_an_unknown_name_lists_what_exists_with_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(UnknownFormatError, match=f"unknown format '{name}'; {hint}"):
        get_format(name)


def test_a_format_can_be_registered_for_this_process(registered: None) -> None:
    format = Other()
    register(format)
    assert get_format("other") is format
    assert format_names()[-1] == "other"


@pytest.mark.parametrize("format", [Npy(), Other()])
def test_a_name_that_is_taken_is_refused(registered: None, format: Format) -> None:
    register(Other()) if format.name == "other" else None
    message = f"a format named '{format.name}' is registered already; names are unique, choose another"
    with pytest.raises(ConfigError, match=message):
        register(format)
    assert get_format("npy").__class__ is Npy


def test_options_of_another_format_are_refused() -> None:
    class OtherOptions(FormatOptions):
        pass

    class WithOptions(Npy):
        name = "with-options"
        Options = OtherOptions

    own = OtherOptions()
    assert WithOptions().options(own) is own
    with pytest.raises(ConfigError, match="format with-options takes OtherOptions, not FormatOptions"):
        WithOptions().options(FormatOptions())
    assert WithOptions().options(None) == WithOptions().options({}) == own
    assert WithOptions().options({"shard_bytes": 7}).shard_bytes == 7


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mds", "format mds takes MdsOptions, not FormatOptions"),
        ("webdataset", "format webdataset takes WebDatasetOptions, not FormatOptions"),
        ("parquet", "format parquet takes ParquetOptions, not FormatOptions"),
        ("jsonl", "format jsonl takes TextOptions, not FormatOptions"),
        ("csv", "format csv takes TextOptions, not FormatOptions"),
    ],
)
def test_a_writer_refuses_options_of_another_format(tmp_path: Path, name: str, message: str) -> None:
    format = get_format(name)
    with pytest.raises(ConfigError, match=message):
        format.write_shard(Folder(tmp_path), "shard-00000", [], Schema(), FormatOptions())
    with pytest.raises(ConfigError, match=message):
        format.options(FormatOptions())
    assert not list(tmp_path.iterdir())

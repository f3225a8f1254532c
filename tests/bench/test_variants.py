"""How formats to compare are named."""

import re

import pytest

from tokenyard.bench.variants import DEFAULT_VARIANTS, parse_variants
from tokenyard.errors import ConfigError, UnknownFormatError
from tokenyard.formats.registry import format_names


def test_every_built_in_format_is_compared_unless_told_otherwise():
    assert {variant.format for variant in parse_variants()} >= {"npy", "mds", "webdataset", "parquet", "jsonl", "csv"}
    assert {variant.format for variant in parse_variants()} <= set(format_names())


def test_a_codec_and_options_come_after_colons():
    (found,) = parse_variants(["parquet:lz4:row_group_rows=512"])
    assert (found.format, dict(found.options)) == ("parquet", {"compression": "lz4", "row_group_rows": 512})
    assert (found.title, found.key) == ("parquet lz4 row_group_rows=512", "parquet-lz4-row-group-rows-512")


def test_a_title_names_the_codec_also_where_the_format_chose_it():
    assert [variant.title for variant in parse_variants(["npy", "mds", "mds:zstd", "parquet"])] == [
        "npy",
        "mds",
        "mds zstd",
        "parquet zstd",
    ]


def test_keys_tell_all_variants_apart():
    assert len({variant.key for variant in parse_variants()}) == len(DEFAULT_VARIANTS)


@pytest.mark.parametrize(
    ("specs", "expected"),
    [
        (["parquet", "parquet:zstd"], "formats: 'parquet:zstd' is the same as 'parquet'; leave one of them out"),
        (["mds:"], "formats: expected format[:codec][:option=value], as parquet:lz4; found 'mds:'"),
        (["mds:zstd:gz"], "formats: expected format[:codec][:option=value], as parquet:lz4; found 'mds:zstd:gz'"),
        (["npy:zstd"], "format npy has no option compression"),
        (["mds:lzma"], "options of format mds: compression"),
        (["mds:shard_bytes=3"], "formats: 'mds:shard_bytes=3' names shard_bytes, which is one for all formats"),
    ],
)
def test_what_names_no_variant_is_refused(specs, expected):
    with pytest.raises(ConfigError, match=re.escape(expected)):
        parse_variants(specs)


def test_an_unknown_format_is_told_with_those_that_there_are():
    with pytest.raises(UnknownFormatError, match="registered are mds, npy"):
        parse_variants(["zarr"])

"""Rows in memory: built from values without changing one, cut and joined."""

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tokenyard.errors import SchemaError
from tokenyard.rows import Column, RowBatch
from tokenyard.schema import FieldType, Schema
from tokenyard.testing.compare import assert_same_rows
from tokenyard.testing.samples import FIELD_TYPES, NUMBER_TYPES, documents, edge_values
from tokenyard.testing.strategies import corpora


def build(tokens: list[Any], token_dtype: str = "uint16") -> RowBatch:
    return RowBatch.from_rows(tokens, Schema(token_dtype=token_dtype))


def build_field(field_type: str, *values: Any) -> Column:
    schema = Schema(fields={"x": field_type})
    return RowBatch.from_rows([[1]] * len(values), schema, {"x": values}, 1000).fields["x"]


@pytest.mark.parametrize(
    "row",
    [
        [1, 2, 3],
        (1, 2, 3),
        range(1, 4),
        np.array([1, 2, 3], np.int8),
        np.array([1, 2, 3], ">u4"),
        np.array([1, 2, 3], np.uint64),
        np.array([1, 9, 2, 9, 3, 9], np.int64)[::2],
        torch.tensor([1, 2, 3]),
        torch.tensor([1, 2, 3], dtype=torch.uint16),
        memoryview(b"\1\2\3"),
        [np.int64(1), np.uint8(2), 3],
    ],
    ids=lambda row: f"{row.__class__.__name__} {getattr(row, 'dtype', '')}",
)
def test_tokens_may_come_as_anything_that_is_a_flat_array_of_integers(row: Any) -> None:
    batch = build([row])
    assert batch.tokens.dtype == np.uint16
    assert batch.row(0)["tokens"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("row", [[], (), np.empty(0), np.empty(0, np.int64), torch.empty(0)])
def test_a_row_without_tokens_has_no_type_to_be_wrong(row: Any) -> None:
    assert build([[1], row, [2]]).lengths.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ([1.0, 2.0], "1-dimensional float64"),
        (np.array([1.5], np.float16), "1-dimensional float16"),
        ([True, False], "1-dimensional bool"),
        ("text", "0-dimensional <U4"),
        (["1", "2"], "1-dimensional <U1"),
        (b"bytes", r"0-dimensional \|S5"),
        (5, "0-dimensional int64"),
        ([[1, 2], [3, 4]], "2-dimensional int64"),
        (np.empty((0, 4), np.int64), "2-dimensional int64"),
        ([None], "1-dimensional object"),
        ([2**70], "1-dimensional object"),
        ([-1, 2**63], "1-dimensional float64"),
        ({1, 2}, "0-dimensional object"),
        (torch.tensor([1.0]), "1-dimensional float32"),
        (torch.tensor([True]), "1-dimensional bool"),
    ],
    ids=lambda case: repr(case)[:30],
)
def test_tokens_that_are_no_flat_array_of_integers_are_refused_with_what_they_are(row: Any, found: str) -> None:
    message = rf"row 1: tokens must be a one-dimensional array of integers of at most 64 bits, not {found}"
    with pytest.raises(SchemaError, match=message):
        build([[1], row])


@pytest.mark.parametrize(
    ("row", "reason"),
    [([[1], [2, 3]], "inhomogeneous shape"), (torch.tensor([1.0], dtype=torch.bfloat16), "BFloat16")],
    ids=["ragged", "bfloat16"],
)
def test_tokens_that_numpy_can_not_take_are_refused_with_its_reason(row: Any, reason: str) -> None:
    with pytest.raises(SchemaError, match=rf"row 0: tokens must be a one-dimensional array of integers \(.*{reason}"):
        build([row])


@pytest.mark.parametrize(
    ("token", "token_dtype", "limit", "advice"),
    [
        (-1, "uint16", 65535, "ids are never negative"),
        (65536, "uint16", 65535, "choose a wider token_dtype"),
        (119546, "uint16", 65535, "choose a wider token_dtype"),
        (2**32, "uint32", 2**32 - 1, "choose a wider token_dtype"),
        (2**31, "int32", 2**31 - 1, "choose a wider token_dtype"),
        (-5, "int32", 2**31 - 1, "ids are never negative"),
        (2**32, "int64", 2**32 - 1, "choose a wider token_dtype"),
        (-(2**63), "int64", 2**32 - 1, "ids are never negative"),
    ],
)
def test_an_id_that_does_not_fit_is_refused_with_its_row(token: int, token_dtype: str, limit: int, advice: str) -> None:
    message = rf"row 2: token id {token} does not fit {token_dtype} \(0 \.\. {limit}\); {advice}"
    with pytest.raises(SchemaError, match=message):
        build([[0], [], np.array([1, token, 3]), [4]], token_dtype)


def test_rows_of_different_integer_types_keep_their_ids() -> None:
    batch = build([np.array([1], np.int64), np.array([2**32 - 1], np.uint64), [3], np.array([4], np.int8)], "uint32")
    assert batch.tokens.tolist() == [1, 2**32 - 1, 3, 4]


def test_an_id_that_needs_the_64th_bit_is_refused_with_its_row() -> None:
    with pytest.raises(SchemaError, match=f"row 1: token id {2**63} is outside 0 .. 4294967295"):
        build([np.array([1]), np.array([2**63], np.uint64)], "int64")
    signed = RowBatch(tokens=np.array([1]), offsets=np.array([0, 1]))
    unsigned = RowBatch(tokens=np.array([2**63], np.uint64), offsets=np.array([0, 1]))
    with pytest.raises(SchemaError, match=f"token id {2**63} is outside 0 .. 4294967295"):
        RowBatch.concat([signed, unsigned])


@pytest.mark.parametrize("name", NUMBER_TYPES)
def test_edge_values_come_back_as_the_python_values_that_went_in(name: str) -> None:
    values = edge_values(name)
    column = build_field(name, *values)
    assert column.values.dtype == np.dtype(name)
    for i, value in enumerate(values):
        assert column.value(i) == value or (value != value and column.value(i) != column.value(i))


@pytest.mark.parametrize("scalar", [np.int64(7), np.uint8(7), np.array(7), torch.tensor(7), 7])
@pytest.mark.parametrize("name", ["int8", "uint64", "float32"])
def test_whole_numbers_may_come_as_any_kind_of_scalar(name: str, scalar: Any) -> None:
    column = build_field(name, scalar, 7)
    assert column.values.dtype == np.dtype(name)
    assert column.values.tolist() == [7, 7]


@pytest.mark.parametrize("scalar", [0.1, np.float64(0.1), np.array(0.1), torch.tensor(0.1, dtype=torch.float64)])
def test_floats_are_rounded_to_the_nearest_that_the_field_holds(scalar: Any) -> None:
    assert build_field("float32", scalar).value(0) == float(np.float32(0.1))
    assert build_field("float64", scalar).value(0) == 0.1


@pytest.mark.parametrize("scalar", [True, np.bool_(True), np.array(True), torch.tensor(True)])
def test_booleans_may_come_as_any_kind_of_scalar(scalar: Any) -> None:
    assert build_field("bool", scalar, False).values.tolist() == [True, False]


def test_large_unsigned_numbers_are_exact_beside_nulls_and_numpy_scalars() -> None:
    column = build_field("uint64?", np.uint64(2**64 - 1), None, 3, 2**64 - 1)
    assert [column.value(i) for i in range(4)] == [2**64 - 1, None, 3, 2**64 - 1]


@pytest.mark.parametrize(
    ("field_type", "value", "message"),
    [
        ("uint8", 256, "256 does not fit uint8"),
        ("uint8", -1, "-1 does not fit uint8"),
        ("uint16", np.int64(70000), "70000 does not fit uint16"),
        ("int64", 2**63, f"{2**63} does not fit int64"),
        ("uint64", 2**64, f"{2**64} does not fit uint64"),
        ("int64", 1.0, "expected int64, found 1.0"),
        ("int64", True, "expected int64, found True"),
        ("int64", "1", "expected int64, found '1'"),
        ("int64", [1], r"expected int64, found \[1\]"),
        ("int64", np.array([1]), r"expected int64, found array\(\[1\]\)"),
        ("bool", 1, "expected bool, found 1"),
        ("bool", 1.0, "expected bool, found 1.0"),
        ("float64", True, "expected float64, found True"),
        ("float64", "1.0", "expected float64, found '1.0'"),
        ("float64", 2**53 + 1, f"{2**53 + 1} does not fit float64"),
        ("float32", 2**24 + 1, f"{2**24 + 1} does not fit float32"),
        ("float64", 10**400, "0 does not fit float64"),
        ("float16", 70000, "70000 does not fit float16"),
        ("float16", 70000.0, "70000.0 does not fit float16"),
        ("float32", 1e39, r"1e\+39 does not fit float32"),
        ("float64", 1j, "expected float64, found 1j"),
        ("string", b"bytes", "expected string, found bytes"),
        ("string", 5, "expected string, found int"),
        ("string", "\ud800", r"text that UTF-8 can't hold \(surrogates not allowed\)"),
        ("bytes", "text", "expected bytes, found str"),
        ("bytes", [1, 2], "expected bytes, found list"),
        ("uint8[]", 5, r"expected a list \(uint8\[\]\), found 5"),
        ("uint8[]", np.zeros((2, 2), np.uint8), r"expected a list \(uint8\[\]\)"),
        ("uint8[]", [1, 256], "256 does not fit uint8"),
        ("uint8[]", [1, True], "expected uint8, found True"),
        ("uint8[]", [1, None], "expected uint8, found None"),
        ("uint8[]", [[1], [2, 3]], r"expected uint8, found \[1\]"),
        ("uint8[]", np.array([1, 256]), r"a value does not fit uint8\[\]"),
        ("uint8[]", np.array([1, -1]), r"a value does not fit uint8\[\]"),
        ("uint8[]", np.array([1.0]), r"expected uint8\[\], found values of type float64"),
        ("uint8[]", np.array([True]), r"expected uint8\[\], found values of type bool"),
        ("bool[]", np.array([1]), r"expected bool\[\], found values of type int64"),
        ("float32[]", np.array([1e39]), r"a value does not fit float32\[\]"),
        ("float16[]", np.array([70000]), r"a value does not fit float16\[\]"),
        ("float64[]", np.array([2**53 + 1]), r"a value does not fit float64\[\]"),
        ("float64[]", np.array([2**63 - 1]), r"a value does not fit float64\[\]"),
        ("float64[]", np.array([2**64 - 1], np.uint64), r"a value does not fit float64\[\]"),
        ("float64[]", [2**53 + 1, 0.5], f"{2**53 + 1} does not fit float64"),
        ("float64[]", torch.tensor([1.0], dtype=torch.bfloat16), r"expected a list \(float64\[\]\)"),
        ("uint8[]", {1}, r"expected a list \(uint8\[\]\)"),
    ],
    ids=lambda case: repr(case)[:24],
)
def test_a_value_that_a_field_can_not_hold_exactly_is_refused_with_its_row(
    field_type: str, value: Any, message: str
) -> None:
    fine = edge_values(field_type)[0]
    with pytest.raises(SchemaError, match=rf"row 1001(, item \d)?: field 'x': .*{message}"):
        build_field(field_type, fine, value, fine)


def test_numbers_that_fit_are_taken_from_arrays_of_other_types() -> None:
    assert build_field("uint8[]", np.array([0, 255])).value(0).tolist() == [0, 255]
    assert build_field("float32[]", np.array([2**24, -1])).value(0).tolist() == [2.0**24, -1.0]
    assert build_field("float64[]", np.array([2**63], np.uint64)).value(0).tolist() == [2.0**63]
    assert build_field("float64[]", np.array([-(2**63)])).value(0).tolist() == [-(2.0**63)]
    assert build_field("int16[]", np.array([1, -2], ">i8")).value(0).tolist() == [1, -2]
    assert np.isnan(build_field("float16[]", np.array([np.nan, np.inf])).value(0)).tolist() == [True, False]


def test_values_are_built_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        build_field("float16", 1e-30, float("nan"), float("inf"))
        build_field("float16[]", np.array([1e-30, np.nan]))
        with pytest.raises(SchemaError, match="does not fit"):
            build_field("float16", 1e30)
        with pytest.raises(SchemaError, match="does not fit"):
            build_field("float32[]", np.array([1e300]))


def test_null_is_refused_unless_the_field_is_nullable() -> None:
    with pytest.raises(SchemaError, match=r"row 1001: field 'x' is null; declare it as 'int64\?' to allow nulls"):
        build_field("int64", 1, None)
    column = build_field("int64?", 1, None)
    assert [column.value(0), column.value(1)] == [1, None]
    assert build_field("int64?", 1, 2).valid is None


@pytest.mark.parametrize("given", [{}, {"x": [1], "y": [1]}, {"y": [1]}])
def test_fields_that_are_not_the_declared_ones_are_refused(given: dict[str, list[int]]) -> None:
    with pytest.raises(SchemaError, match=r"fields \[.*\] were given, the schema declares \['x'\]"):
        RowBatch.from_rows([[1]], Schema(fields={"x": "int64"}), given)


def test_a_field_with_another_number_of_values_is_refused() -> None:
    with pytest.raises(SchemaError, match="field 'x' has 1 values for 2 rows"):
        RowBatch.from_rows([[1], [2]], Schema(fields={"x": "int64"}), {"x": [1]})


@given(corpora(max_rows=20), st.lists(st.integers(0, 20), max_size=4))
def test_slices_joined_again_are_the_rows(corpus: tuple[Schema, RowBatch], cuts: list[int]) -> None:
    schema, batch = corpus
    edges = [0, *sorted(min(c, len(batch)) for c in cuts), len(batch)]
    parts = [batch.slice(a, b) for a, b in itertools.pairwise(edges)]
    joined = RowBatch.concat(parts)
    assert_same_rows([joined], batch)
    joined.check()
    assert joined.num_tokens == batch.num_tokens
    assert sum(p.nbytes for p in parts) == batch.nbytes
    assert len(RowBatch.empty(schema)) == 0


def test_joined_batches_keep_ids_that_no_common_numpy_type_holds() -> None:
    parts = [
        RowBatch(tokens=np.array([1], np.int64), offsets=np.array([0, 1])),
        RowBatch(tokens=np.array([2**63 - 1], np.uint64), offsets=np.array([0, 1])),
    ]
    joined = RowBatch.concat(parts)
    assert joined.tokens.dtype == np.int64
    assert joined.tokens.tolist() == [1, 2**63 - 1]


def test_a_cast_that_loses_nothing_shares_memory_and_one_that_would_is_refused_with_its_row() -> None:
    batch = build([[1, 2], [70000]], "uint32")
    assert batch.cast("uint32") is batch
    assert np.shares_memory(
        RowBatch(tokens=batch.tokens.view(np.int32), offsets=batch.offsets).cast("int32").tokens, batch.tokens
    )
    with pytest.raises(SchemaError, match="row 501: token id 70000 does not fit uint16"):
        batch.cast("uint16", 500)
    assert batch.slice(0, 1).cast("uint16").tokens.dtype == np.uint16


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": np.zeros((2, 2), np.uint16)}, "must be one flat array of integers, not 2-dimensional uint16"),
        ({"tokens": np.zeros(4)}, "must be one flat array of integers, not 1-dimensional float64"),
        ({"offsets": np.array([0, 2])}, "offsets must be int64 and increase from 0 to the 4 items"),
        ({"offsets": np.array([1, 4])}, "offsets must be int64 and increase from 0 to the 4 items"),
        ({"offsets": np.array([0, 3, 2, 4])}, "offsets must be int64 and increase from 0 to the 4 items"),
        ({"offsets": np.array([0, 4], np.int32)}, "offsets must be int64 and increase from 0 to the 4 items"),
        ({"offsets": np.empty(0, np.int64)}, "offsets must be int64 and increase from 0 to the 4 items"),
    ],
)
def test_a_batch_whose_parts_do_not_fit_together_is_refused(change: dict[str, Any], message: str) -> None:
    sound = {"tokens": np.zeros(4, np.uint16), "offsets": np.array([0, 4])}
    RowBatch(**sound).check()
    with pytest.raises(SchemaError, match=message):
        RowBatch(**{**sound, **change}).check()


@pytest.mark.parametrize(
    ("field_type", "column", "message"),
    [
        ("int64", {"values": np.zeros(3, np.int64)}, "field 'x' has 3 rows, its batch 2"),
        ("int64", {"values": np.zeros(2, np.int32)}, "field 'x': expected int64, found values of type int32"),
        ("int64", {"values": np.zeros((2, 1), np.int64)}, "field 'x': expected int64"),
        ("int64[]", {"values": np.zeros(2, np.int64)}, r"field 'x': int64\[\] takes offsets"),
        (
            "int64",
            {"values": np.zeros(2, np.int64), "offsets": np.array([0, 1, 2])},
            "field 'x': int64 takes no offsets",
        ),
        ("string", {"values": np.zeros(2, np.uint8), "offsets": np.array([0, 1, 1])}, "increase from 0 to the 2 items"),
        (
            "int64",
            {"values": np.zeros(2, np.int64), "valid": np.array([True, False])},
            r"field 'x' is null in some rows; declare it as 'int64\?'",
        ),
        ("int64?", {"values": np.zeros(2, np.int64), "valid": np.array([True])}, "field 'x' has 2 rows, its batch 2"),
    ],
)
def test_a_column_that_does_not_fit_its_batch_is_refused(field_type: str, column: dict[str, Any], message: str) -> None:
    built = Column(type=FieldType.parse(field_type), **column)
    batch = RowBatch(tokens=np.zeros(2, np.uint16), offsets=np.array([0, 1, 2]), fields={"x": built})
    with pytest.raises(SchemaError, match=message):
        batch.check()


@pytest.mark.parametrize("field_type", FIELD_TYPES)
def test_an_empty_batch_has_the_columns_of_its_schema(field_type: str) -> None:
    schema = Schema(fields={"x": field_type, "y": field_type + "?"})
    empty = RowBatch.empty(schema)
    empty.check()
    assert {n: c.type for n, c in empty.fields.items()} == dict(schema.fields)


def test_a_batch_knows_its_bytes() -> None:
    _, batch = documents(10)
    fields = sum(c.values.nbytes for c in batch.fields.values())
    assert batch.nbytes == batch.tokens.nbytes + fields

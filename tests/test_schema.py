"""What a schema may say, and that all that is wrong with one is told at once."""

import dataclasses
import pickle
from typing import Any

import pytest

from tokenyard.errors import SchemaError
from tokenyard.schema import TOKEN_DTYPES, FieldType, Schema, token_dtype_for
from tokenyard.testing.samples import FIELD_TYPES


@pytest.mark.parametrize("name", [*FIELD_TYPES, *(f"{n}?" for n in FIELD_TYPES)])
def test_a_field_type_is_written_as_it_is_read(name: str) -> None:
    type = FieldType.parse(name)
    assert str(type) == name
    assert type.nullable is name.endswith("?")
    assert type.is_list is ("[]" in name)
    assert type.has_offsets is (type.is_list or type.is_binary)
    assert str(type.dtype) == ("uint8" if type.is_binary else name.removesuffix("?").removesuffix("[]"))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "?",
        "[]",
        "int",
        "int128",
        "uint8[][]",
        "uint8?[]",
        "uint8??",
        "string[]",
        "bytes[]?",
        "float",
        "object",
        "str",
    ],
)
def test_an_unknown_field_type_is_refused_with_those_that_are_known(name: str) -> None:
    with pytest.raises(SchemaError, match=r"unknown field type .*: expected one of int8, .*, bool .*string or bytes"):
        FieldType.parse(name)


@pytest.mark.parametrize("wrong", [5, None, ["uint8"], {"type": "uint8"}])
def test_a_field_type_that_is_no_string_is_refused(wrong: Any) -> None:
    with pytest.raises(SchemaError, match=r"field 'x': a field's type is a string such as 'uint8\[\]', not"):
        Schema(fields={"x": wrong})


def test_fields_may_be_given_as_strings_or_as_types() -> None:
    one = Schema(fields={"mask": "uint8[]", "source": FieldType.parse("string?")})
    other = Schema(fields={"source": "string?", "mask": FieldType("uint8", is_list=True)})
    assert one == other
    assert one.fields["mask"].is_list


@pytest.mark.parametrize("token_dtype", ["int8", "uint8", "int16", "uint64", *TOKEN_DTYPES])
def test_any_integer_dtype_can_be_read_and_four_can_be_written(token_dtype: str) -> None:
    schema = Schema(token_dtype=token_dtype)
    if token_dtype in TOKEN_DTYPES:
        schema.check_writable()
        return
    with pytest.raises(SchemaError, match=f"token_dtype {token_dtype} can be read but not written; use one of uint16"):
        schema.check_writable()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"token_dtype": "float32"}, "token_dtype 'float32' is not an integer type; use one of uint16, uint32"),
        ({"token_dtype": 5}, "token_dtype 5 is not an integer type"),
        ({"vocab_size": -1}, "vocab_size must be a whole number from 0 on or None, not -1"),
        ({"vocab_size": 1.5}, "vocab_size must be a whole number from 0 on or None, not 1.5"),
        ({"eos_token_id": True}, "eos_token_id must be a whole number from 0 on or None, not True"),
        ({"bos_token_id": "1"}, "bos_token_id must be a whole number from 0 on or None, not '1'"),
        ({"tokenizer": 5}, "tokenizer must be a fingerprint or None, not 5"),
        ({"fields": {"x": "int"}}, "field 'x': unknown field type 'int'"),
    ],
    ids=lambda case: str(case)[:30],
)
def test_what_is_wrong_is_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema(**wrong)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(SchemaError) as caught:
        Schema(token_dtype="text", vocab_size=-1, eos_token_id=-2, fields={"x": "int", "y": "float"})
    for part in ("token_dtype 'text'", "vocab_size", "eos_token_id", "field 'x'", "field 'y'"):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "name", ["tokens", "Tokens", "row", "", "1st", "a.b", "a b", "a/b", "-a", "naïve", "a\n", "..", "a:b", ".hidden"]
)
def test_a_field_name_that_some_format_can_not_keep_is_not_written(name: str) -> None:
    schema = Schema(fields={name: "int64"})
    with pytest.raises(SchemaError, match="can't be kept in every format: use letters, digits, '_' and '-'"):
        schema.check_writable()


def test_field_names_that_differ_only_in_case_are_not_written() -> None:
    with pytest.raises(SchemaError, match="field names differ only in case: Mask, mask"):
        Schema(fields={"mask": "int64", "Mask": "int64"}).check_writable()


def test_a_schema_survives_its_dictionary_and_pickling() -> None:
    schema = Schema(
        token_dtype="uint16",
        vocab_size=50257,
        eos_token_id=50256,
        bos_token_id=0,
        tokenizer="blake3:00",
        fields={"z": "string?", "a": "uint8[]"},
    )
    assert Schema.from_dict(schema.to_dict()) == schema
    assert list(schema.to_dict()["fields"]) == ["a", "z"]
    assert pickle.loads(pickle.dumps(schema)) == schema
    assert dataclasses.replace(schema, vocab_size=None).fields == schema.fields
    assert Schema.from_dict({}) == Schema()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"colour": 1, "token_dtype": "uint16"}, "unknown schema keys colour; known are token_dtype, vocab_size"),
        ({"fields": ["mask"]}, r"schema.fields must map names to types, not \['mask'\]"),
    ],
)
def test_a_dictionary_that_is_no_schema_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.from_dict(data)


@pytest.mark.parametrize(
    ("largest", "expected"),
    [(0, "uint16"), (65535, "uint16"), (65536, "uint32"), (129279, "uint32"), (2**32 - 1, "uint32")],
)
def test_the_narrowest_dtype_holds_the_largest_id(largest: int, expected: str) -> None:
    assert token_dtype_for(largest) == expected


@pytest.mark.parametrize("largest", [-1, 2**32])
def test_an_id_past_32_bits_has_no_dtype(largest: int) -> None:
    with pytest.raises(SchemaError, match=f"token id {largest} is outside 0 .. 4294967295"):
        token_dtype_for(largest)

"""Conditions on uploads to a store whose conditions are on numbers of objects, not on etags (Google's)."""

from typing import Any

import obstore
import pytest

from tokenyard.storage.objects import open_objects


@pytest.fixture
def modes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The conditions of all uploads; the object there has the etag "a" and the number 7."""
    made: list[Any] = []

    def put(*_: Any, mode: Any, **__: Any) -> dict[str, str]:
        made.append(mode)
        return {"e_tag": '"b"'}

    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    monkeypatch.setattr(obstore, "put", put)
    monkeypatch.setattr(obstore, "head", lambda *_: {"e_tag": '"a"', "version": "7"})
    return made


@pytest.mark.parametrize(("etag", "number"), [('"a"', "7"), ('"c"', "1")])
def test_googles_store_is_asked_for_the_number_of_the_object_with_the_etag(
    modes: list[Any], etag: str, number: str
) -> None:
    open_objects("gs://bucket/folder").put_if("x", b"1", etag)
    assert modes == [{"e_tag": etag, "version": number}]

"""Leases on objects: one owner at a time, told from a dead one by watching."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tokenyard.corpus import lease
from tokenyard.corpus.lease import Lease, TakenError, look, takeable, write_free
from tokenyard.errors import StorageError
from tokenyard.storage.objects import Objects, open_objects

NAME = "marker.json"
WATCHING = "ignore:.*watching for up to"
SAID = {"job": "convert", "id": "1"}


@pytest.fixture
def objects(request: pytest.FixtureRequest) -> Iterator[Objects]:
    found = open_objects(f"memory://leases/{request.node.name}")
    yield found
    for info in found.list():
        found.remove(info.name)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.2)


def die(held: Lease) -> None:
    """Stop renewing, as a killed process does."""
    held._stopped()


def test_one_gets_a_lease_and_what_it_says_can_be_read(objects: Objects) -> None:
    held = Lease(objects, NAME, SAID)
    seen = look(objects, NAME)
    assert seen is not None
    assert (dict(seen.said), seen.owner is not None) == (SAID, True)
    with pytest.raises(TakenError, match=f"{NAME}: somebody else was quicker"):
        Lease(objects, NAME, SAID)
    held.end()
    assert look(objects, NAME) is None


def test_a_lease_that_was_given_back_can_be_had_at_once(objects: Objects) -> None:
    Lease(objects, NAME, SAID).release()
    assert json.loads(bytes(objects.read(NAME))) == SAID
    seen = takeable(objects, NAME)
    assert seen is not None
    Lease(objects, NAME, SAID, over=seen.etag).end()
    assert takeable(objects, NAME) is None


@pytest.mark.filterwarnings(WATCHING)
def test_a_living_owner_renews_its_lease(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 3.0)
    held = Lease(objects, NAME, SAID)
    with pytest.raises(TakenError, match=f"{NAME}: its owner is at work"):
        takeable(objects, NAME)
    assert held.is_kept()
    held.release()


@pytest.mark.usefixtures("short")
def test_a_lease_that_nobody_renews_goes_to_one_of_those_who_watched(objects: Objects) -> None:
    dead = Lease(objects, NAME, SAID)
    die(dead)
    with pytest.warns(
        match=r"/test_.*: somebody is at work there, or was killed; watching for up to 0\.2 s which it is"
    ):
        seen = takeable(objects, NAME)
    assert seen is not None
    held = Lease(objects, NAME, SAID, over=seen.etag)
    with pytest.raises(TakenError):
        Lease(objects, NAME, SAID, over=seen.etag)
    assert held.is_kept()
    held.end()


@pytest.mark.filterwarnings(WATCHING)
@pytest.mark.parametrize("then", ["free", "taken", "gone"])
def test_a_lease_that_is_given_back_while_it_is_watched_is_nobodys_only_if_nobody_has_it_since(
    objects: Objects, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    held = Lease(objects, NAME, SAID)
    real = lease.are_dead

    def watched(*args: Any) -> bool:
        (held.end if then == "gone" else held.release)()
        is_dead = real(*args)
        if then == "taken":
            seen = look(objects, NAME)
            assert seen is not None
            die(Lease(objects, NAME, SAID, over=seen.etag))
        return is_dead

    monkeypatch.setattr(lease, "are_dead", watched)
    if then == "taken":
        with pytest.raises(TakenError, match="its owner is at work"):
            takeable(objects, NAME)
        return
    seen = takeable(objects, NAME)
    assert (seen is None) == (then == "gone")
    assert seen is None or seen.owner is None


def test_an_owner_that_was_taken_for_dead_finds_out_and_leaves_the_lease_alone(objects: Objects) -> None:
    slow = Lease(objects, NAME, SAID)
    seen = look(objects, NAME)
    assert seen is not None
    assert write_free(objects, NAME, SAID, over=seen.etag)
    assert not slow.is_kept()
    slow.release()
    slow.end()
    assert json.loads(bytes(objects.read(NAME))) == SAID


def test_an_object_that_is_made_while_it_is_looked_for_is_found(
    objects: Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Objects.head

    def meanwhile(self: Objects, name: str) -> Any:
        self.put_new(name, b"{}")
        return real(self, name)

    monkeypatch.setattr(Objects, "head", meanwhile)
    seen = look(objects, NAME)
    assert seen is not None
    assert seen.owner is None


def test_an_owner_that_slept_does_not_remove_the_lease_of_who_came_after(objects: Objects) -> None:
    slept = Lease(objects, NAME, SAID)
    seen = look(objects, NAME)
    assert seen is not None
    after = Lease(objects, NAME, SAID, over=seen.etag)
    slept.end()
    assert after.is_kept()
    after.end()


def test_a_renewal_whose_answer_was_lost_is_no_loss(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Lease(objects, NAME, SAID)
    real = Objects.put_if

    def unheard(*args: Any) -> str | None:
        real(*args)
        raise StorageError("the connection was reset")

    monkeypatch.setattr(Objects, "put_if", unheard)
    with pytest.raises(StorageError, match="reset"):
        held.is_kept()
    monkeypatch.undo()
    assert held.is_kept()
    held.end()
    assert look(objects, NAME) is None


def test_an_object_that_is_no_json_has_no_owner(objects: Objects) -> None:
    objects.put(NAME, b"{")
    seen = look(objects, NAME)
    assert seen is not None
    assert (dict(seen.said), seen.owner) == ({}, None)

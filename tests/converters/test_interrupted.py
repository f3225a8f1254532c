"""Jobs that are killed at any moment, that fail, that are run again, and that are done in parts."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.corpora import random_rows, write_corpus
from tests.real_data import gpt2_json
from tokenyard.converters.convert import convert, plan_convert
from tokenyard.converters.pack import pack
from tokenyard.converters.run import PLAN_NAME, run_part
from tokenyard.converters.tokenize import plan_tokenize, tokenize
from tokenyard.converters.verify import verify
from tokenyard.corpus import open_corpus
from tokenyard.corpus.claim import FINISHED_NAME
from tokenyard.errors import (
    ConfigError,
    DataError,
    DestinationExistsError,
    IncompleteCorpusError,
    StorageError,
    VerificationError,
)
from tokenyard.testing.round_trips import contents

SHARDS = {"shard_bytes": 20_000}
NUM_TASKS = 3
ENV = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "corpus"
    write_corpus(path, random_rows(seed=3, num_rows=2500, longest=6))
    return path


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "a.jsonl"
    path.write_text("".join(json.dumps({"text": f"a text of number {i}"}) + "\n" for i in range(40)))
    return path


def killed_at_acts(folder: Path, kind: str, source: Path, how: str, stride: int) -> list[dict[str, Any]]:
    arguments = [kind, str(source), str(folder), how, str(stride), str(gpt2_json())]
    command = [sys.executable, "-m", "tests.converters.kills", *arguments]
    ended = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=3000, check=False)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def check_kills(folder: Path, kind: str, source: Path, how: str, stride: int) -> None:
    *killed, whole = killed_at_acts(folder, kind, source, how, stride)
    assert len(killed) * stride > 60
    assert whole["ended"] == "done"
    for found in killed:
        assert found["ended"] == "killed"
        assert found["contents"] == whole["contents"], found
        if how == "create":
            assert found["found"] in (whole["found"], "IncompleteCorpusError", "NotACorpusError")
        else:
            assert found["found"].startswith("ty1:")  # the old corpus or the new one, at each moment
        if "DestinationExistsError" in found["again"]:
            assert (how, found["found"]) == ("create", whole["found"])
        else:
            assert found["again"] == "done"


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("mds", "create"),
        ("parquet", "overwrite"),
        ("pack", "create"),
        ("tokenize", "create"),
        ("shuffle", "create"),
        ("filter", "overwrite"),
        ("merge", "create"),
        ("split", "create"),
    ],
)
def test_a_job_that_was_killed_gives_the_same_bytes_when_it_is_run_again(
    tmp_path: Path, source: Path, texts: Path, kind: str, how: str
) -> None:
    check_kills(tmp_path, kind, texts if kind == "tokenize" else source, how, 12)


@pytest.mark.soak
@pytest.mark.parametrize("how", ["create", "overwrite"])
@pytest.mark.parametrize(
    "kind",
    ["npy", "mds", "webdataset", "parquet", "jsonl", "csv", "pack", "tokenize", "shuffle", "filter", "merge"],
)
def test_a_job_killed_at_any_act_gives_the_same_bytes_when_it_is_run_again(
    tmp_path: Path, source: Path, texts: Path, kind: str, how: str
) -> None:
    check_kills(tmp_path, kind, texts if kind == "tokenize" else source, how, 1)


class StoppedError(Exception):
    pass


def stop_after(num_tasks: int) -> Any:
    """What stops a job from outside when so many of its tasks are done."""
    done = 0

    def count(_: object) -> None:
        nonlocal done
        done += 1
        if done == num_tasks:
            raise StoppedError

    return count


def interrupt(source: Path, place: Path, num_tasks: int = 1, **options: Any) -> StoppedError:
    with pytest.raises(StoppedError) as stopped:
        convert(source, place, to="mds", on_progress=stop_after(num_tasks), **SHARDS, **options)
    return stopped.value


def test_what_an_error_leaves_is_told_and_gone_on_with(tmp_path: Path, source: Path) -> None:
    place = tmp_path / "out"
    error = interrupt(source, place, num_tasks=2)
    assert f"the same job, run again, goes on with it; it lies in {place}" in error.__notes__[0]
    with pytest.raises(IncompleteCorpusError, match="run the job again; it goes on"):
        open_corpus(place)
    written = {p: p.stat().st_mtime_ns for p in place.rglob("*.mds")}
    done: list[int] = []
    convert(source, place, to="mds", on_progress=lambda p: done.append(p.rows), **SHARDS)
    assert done == [2500]
    assert len(written) >= 2
    assert all(path.stat().st_mtime_ns == time for path, time in written.items())
    convert(source, tmp_path / "whole", to="mds", **SHARDS)
    assert contents(place) == contents(tmp_path / "whole")


def test_a_shard_that_is_gone_or_cut_since_is_made_again(tmp_path: Path, source: Path) -> None:
    place = tmp_path / "out"
    interrupt(source, place, num_tasks=2)
    one, other, *_ = sorted(place.glob("*.mds"))
    one.unlink()
    other.write_bytes(other.read_bytes()[:-1])
    convert(source, place, to="mds", **SHARDS)
    convert(source, tmp_path / "whole", to="mds", **SHARDS)
    assert contents(place) == contents(tmp_path / "whole")


def test_a_line_of_the_ledger_that_was_cut_is_a_task_to_be_done(tmp_path: Path, source: Path) -> None:
    place = tmp_path / "out"
    interrupt(source, place, num_tasks=2)
    (ledger,) = (place / ".tokenyard/job/done").iterdir()
    ledger.write_bytes(ledger.read_bytes()[:-5])
    rows: list[int] = []
    convert(source, place, to="mds", on_progress=lambda p: rows.append(p.rows), **SHARDS)
    assert rows == [2048, 2500]


def test_another_job_does_not_go_on_there_and_says_what_differs(tmp_path: Path, source: Path) -> None:
    place = tmp_path / "out"
    interrupt(source, place)
    with pytest.raises(DestinationExistsError, match=r"half-made \(another job.*shard_bytes: 20000 there, 30000 now\)"):
        convert(source, place, to="mds", shard_bytes=30_000)
    write_corpus(tmp_path / "other", random_rows(seed=4, num_rows=2500, longest=6))
    with pytest.raises(DestinationExistsError, match=r"which could go on: its inputs have changed\).*pass --overwrite"):
        convert(tmp_path / "other", place, to="mds", **SHARDS)
    convert(tmp_path / "other", place, to="mds", overwrite=True, **SHARDS)
    assert open_corpus(place).digest == open_corpus(tmp_path / "other").digest
    assert sorted(p.name for p in tmp_path.iterdir()) == ["other", "out"]


def test_what_somebody_put_there_since_is_not_touched(tmp_path: Path, source: Path) -> None:
    place = tmp_path / "out"
    interrupt(source, place)
    (place / "notes.txt").write_text("mine")
    with pytest.raises(DestinationExistsError, match=r"'notes\.txt' has been put there since.*move it away"):
        convert(source, place, to="mds", **SHARDS)
    assert (place / "notes.txt").read_text() == "mine"


def test_replacing_goes_on_beside_the_old_corpus(tmp_path: Path, source: Path) -> None:
    place = tmp_path / "out"
    convert(source, place, to="csv")
    old = contents(place)
    interrupt(source, place, num_tasks=2, overwrite=True)
    assert contents(place) == old
    assert sorted(p.name for p in tmp_path.iterdir()) == [".out.new", "out"]
    rows: list[int] = []
    convert(source, place, to="mds", overwrite=True, on_progress=lambda p: rows.append(p.rows), **SHARDS)
    assert (rows, open_corpus(place).format) == ([2500], "mds")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_what_another_job_has_done_beside_a_corpus_is_not_thrown_away(tmp_path: Path, source: Path) -> None:
    place = tmp_path / "out"
    convert(source, place, to="csv")
    interrupt(source, place, overwrite=True)
    with pytest.raises(DestinationExistsError, match=r"to: 'mds' there, 'parquet' now.*what it has done is kept: run"):
        convert(source, place, to="parquet", overwrite=True)
    convert(source, place, to="mds", overwrite=True, **SHARDS)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_what_nobody_asks_for_any_more_goes_when_a_corpus_is_replaced(tmp_path: Path, source: Path) -> None:
    place = tmp_path / "out"
    convert(source, place, to="csv")
    shutil.copytree(place, tmp_path / ".out.new")
    convert(source, place, to="parquet", overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    (tmp_path / ".out.new").mkdir()
    (tmp_path / ".out.new/mine").touch()
    with pytest.raises(DestinationExistsError, match=r"\.out\.new: something that is not.*see to it first"):
        convert(source, place, to="parquet", overwrite=True)


@pytest.mark.parametrize("left", ["a corpus", "a dead job"])
def test_parts_that_begin_at_once_share_a_place_that_must_be_emptied(tmp_path: Path, source: Path, left: str) -> None:
    place = tmp_path / "out"
    convert(source, place, to="csv")
    if left == "a corpus":
        shutil.copytree(place, tmp_path / ".out.new")
    else:
        (tmp_path / ".out.new/.tokenyard").mkdir(parents=True)
        (tmp_path / ".out.new/.tokenyard/job.json").write_text("{}")
        (tmp_path / ".out.new/shard-00000-00000.csv").touch()
    program = [sys.executable, "-m", "tokenyard", "convert", str(source), str(place), "--to", "mds", "--overwrite"]
    program += ["-o", "shard_bytes=20000"]
    parts = [
        subprocess.Popen([*program, "--task", f"{n}/3"], env=ENV, stderr=subprocess.PIPE, text=True) for n in (1, 2, 3)
    ]
    said = [part.communicate(timeout=120)[1] for part in parts]
    assert [part.returncode for part in parts] == [0, 0, 0], said
    convert(source, place, to="mds", overwrite=True, finish=True, **SHARDS)
    convert(source, tmp_path / "whole", to="mds", **SHARDS)
    made = contents(place)
    assert json.loads(made.pop(FINISHED_NAME)).keys() == {"id", "counts"}
    assert made == contents(tmp_path / "whole")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "whole"]


def test_a_finished_corpus_that_could_not_take_its_place_is_kept(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "out"
    convert(source, place, to="csv")

    def busy(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr("tokenyard.storage.exchange._exchanged", busy)
    with pytest.raises(StorageError, match="can't put the new corpus at") as error:
        convert(source, place, to="mds", overwrite=True, **SHARDS)
    assert "the new corpus is whole" in error.value.__notes__[0]
    monkeypatch.undo()
    rows: list[int] = []
    convert(source, place, to="mds", overwrite=True, on_progress=lambda p: rows.append(p.rows), **SHARDS)
    assert (rows, open_corpus(place).format) == ([], "mds")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("job", ["convert", "pack"])
def test_a_source_of_others_that_was_changed_is_another_job(tmp_path: Path, job: str) -> None:
    lines = [json.dumps({"tokens": [i % 10, 1]}) for i in range(3000)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))

    def run(**more: Any) -> None:
        read = {"tokens": "tokens"}
        if job == "convert":
            convert(tmp_path / "a.jsonl", tmp_path / "out", to="mds", shard_bytes=20_000, read=read, **more)
        else:
            pack(tmp_path / "a.jsonl", tmp_path / "out", seq_len=2, format="mds", shard_bytes=20_000, read=read, **more)

    with pytest.raises(StoppedError):
        run(on_progress=stop_after(1))
    (tmp_path / "a.jsonl").write_text("\n".join(lines).replace("[9, 1]", "[8, 1]"))
    with pytest.raises(DestinationExistsError, match="its inputs have changed"):
        run()


def test_a_source_that_was_damaged_is_read_again_when_it_is_mended(tmp_path: Path, source: Path) -> None:
    manifest = source / ".tokenyard/manifest.json"
    right = manifest.read_bytes()
    digest = open_corpus(source).digest
    assert digest is not None
    manifest.write_bytes(right.replace(digest.encode(), b"ty1:" + b"0" * 64))
    try:
        with pytest.raises(VerificationError, match="the source is damaged"):
            convert(source, tmp_path / "out", to="mds", **SHARDS)
    finally:
        manifest.write_bytes(right)
    assert not (tmp_path / "out").exists()
    assert convert(source, tmp_path / "out", to="mds", **SHARDS).digest == digest


def test_bad_records_can_be_skipped_by_the_run_that_goes_on(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"a text of number {i}"}) for i in range(40)]
    lines[-1] = "{"
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    how: dict[str, Any] = {"tokenizer": gpt2_json(), "add_eos": False, "text": {"split_bytes": 200}}
    with pytest.raises(DataError, match="line 40") as error:
        tokenize(tmp_path / "a.jsonl", tmp_path / "out", **how)
    assert "goes on with it" in error.value.__notes__[0]
    report = tokenize(tmp_path / "a.jsonl", tmp_path / "out", on_bad_record="skip", **how)
    assert (report.num_documents, report.num_bad_records) == (39, 1)


def test_records_that_were_skipped_are_an_error_to_a_run_that_skips_none(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"a text of number {i}"}) for i in range(40)]
    lines[0] = "{"
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    how: dict[str, Any] = {"tokenizer": gpt2_json(), "add_eos": False, "text": {"split_bytes": 200}}
    with pytest.raises(StoppedError):
        tokenize(tmp_path / "a.jsonl", tmp_path / "out", on_bad_record="skip", on_progress=stop_after(1), **how)
    with pytest.raises(DataError, match=r"1 bad records were skipped when this job was run before; go on with"):
        tokenize(tmp_path / "a.jsonl", tmp_path / "out", **how)


def test_bad_records_are_counted_by_each_part_and_over_all_parts_at_the_end(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"a text of number {i}"}) for i in range(40)]
    lines[0] = lines[-1] = "{"
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    how: dict[str, Any] = {"tokenizer": gpt2_json(), "add_eos": False, "on_bad_record": "skip"}
    how["text"] = {"split_bytes": 700}
    for number in (1, 2):
        part = plan_tokenize(str(tmp_path / "a.jsonl"), max_bad_records=1, **how)
        assert len(part.tasks) == 2
        assert run_part(part, tmp_path / "out", (number, 2)).num_tasks == 1
    with pytest.raises(DataError, match="more than 1 bad records; mend the input, or raise max_bad_records"):
        tokenize(tmp_path / "a.jsonl", tmp_path / "out", max_bad_records=1, finish=True, **how)
    report = tokenize(tmp_path / "a.jsonl", tmp_path / "out", max_bad_records=2, finish=True, **how)
    assert (report.num_documents, report.num_bad_records) == (38, 2)


def test_input_that_was_changed_since_is_another_job(tmp_path: Path, texts: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(texts.read_bytes())
    how: dict[str, Any] = {"tokenizer": gpt2_json(), "add_eos": False, "text": {"split_bytes": 200}}
    with pytest.raises(StoppedError):
        tokenize(tmp_path / "a.jsonl", tmp_path / "out", on_progress=stop_after(1), **how)
    (tmp_path / "a.jsonl").write_bytes(texts.read_bytes().replace(b"number 39", b"number 93"))
    with pytest.raises(DestinationExistsError, match="its inputs have changed"):
        tokenize(tmp_path / "a.jsonl", tmp_path / "out", **how)


@pytest.mark.parametrize("count", [1, 2, 3, 16])
def test_parts_in_any_order_give_the_same_bytes(tmp_path: Path, source: Path, count: int) -> None:
    convert(source, tmp_path / "whole", to="mds", **SHARDS)
    job = plan_convert(source, to="mds", **SHARDS)
    assert len(job.tasks) == NUM_TASKS
    remaining = []
    for number in reversed(range(1, count + 1)):
        report = run_part(job, tmp_path / "out", (number, count))
        assert report.part == f"{number}/{count}"
        assert report.num_tasks == len(range(number - 1, NUM_TASKS, count))
        remaining.append(report.num_open_tasks)
        with pytest.raises(IncompleteCorpusError):
            open_corpus(tmp_path / "out")
    assert remaining == sorted(remaining, reverse=True)
    assert remaining[-1] == 0
    assert (tmp_path / "out" / PLAN_NAME).read_text() == "[0, 1024]\n[1024, 2048]\n[2048, 2500]\n"
    report = convert(source, tmp_path / "out", to="mds", finish=True, **SHARDS)
    assert report.num_rows == 2500
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_part_that_is_run_again_after_the_end_does_nothing(tmp_path: Path, source: Path, overwrite: bool) -> None:
    place, job = tmp_path / "out", plan_convert(source, to="mds", **SHARDS)
    convert(source, place, to="csv")
    for number in (1, 2):
        run_part(job, place, (number, 2), overwrite=True)
    convert(source, place, to="mds", overwrite=True, finish=True, **SHARDS)
    made = contents(place)
    report = run_part(job, place, (2, 2), overwrite=overwrite)
    assert (report.num_tasks, report.num_open_tasks) == (0, 0)
    assert contents(place) == made
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert verify(place).problems == ()


def test_all_parts_and_their_end_may_be_run_again_and_tell_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "a text"}) + "\n{\n")
    place, told = tmp_path / "out", []
    how: dict[str, Any] = {"tokenizer": gpt2_json(), "add_eos": False, "on_bad_record": "skip"}
    tokenize(tmp_path / "a.jsonl", place, format="csv", **how)
    for _ in range(2):
        run_part(plan_tokenize(tmp_path / "a.jsonl", **how), place, (1, 1), overwrite=True)
        told.append(tokenize(tmp_path / "a.jsonl", place, overwrite=True, finish=True, **how))
    assert [(report.num_documents, report.num_bad_records) for report in told] == [(1, 1)] * 2
    assert told[0].digest == told[1].digest
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.jsonl", "out"]
    assert verify(place).problems == ()


def test_a_part_of_another_job_builds_anew_over_what_parts_have_made(tmp_path: Path, source: Path) -> None:
    place, other = tmp_path / "out", plan_convert(source, to="parquet", **SHARDS)
    run_part(plan_convert(source, to="mds", **SHARDS), place, (1, 1), overwrite=True)
    convert(source, place, to="mds", finish=True, **SHARDS)
    with pytest.raises(DestinationExistsError, match="a corpus is there already; pass --overwrite"):
        run_part(other, place, (1, 1))
    assert run_part(other, place, (1, 1), overwrite=True).num_tasks == NUM_TASKS
    convert(source, place, to="parquet", overwrite=True, finish=True, **SHARDS)
    assert open_corpus(place).format == "parquet"
    # Made as a whole, it may be made again as a whole and by parts.
    convert(source, place, to="mds", overwrite=True, **SHARDS)
    assert run_part(plan_convert(source, to="mds", **SHARDS), place, (1, 1), overwrite=True).num_tasks == NUM_TASKS


def test_an_end_before_all_parts_are_done_is_refused_and_a_run_does_the_rest(tmp_path: Path, source: Path) -> None:
    job = plan_convert(source, to="mds", **SHARDS)
    run_part(job, tmp_path / "out", (2, 3))
    with pytest.raises(ConfigError, match=r"2 of 3 tasks are not done yet \(1, 3\): run the parts"):
        convert(source, tmp_path / "out", to="mds", finish=True, **SHARDS)
    rows: list[int] = []
    convert(source, tmp_path / "out", to="mds", on_progress=lambda p: rows.append(p.rows), **SHARDS)
    assert rows == [2048, 2500]


@pytest.mark.parametrize("part", [(0, 3), (4, 3), (-1, 3), (1, 0)])
def test_a_part_that_there_is_not_is_refused(tmp_path: Path, source: Path, part: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match=f"task {part[0]}/{part[1]}: tasks are counted from 1"):
        run_part(plan_convert(source, to="mds"), tmp_path / "out", part)


def test_parts_run_beside_each_other_but_the_same_one_and_the_whole_job_wait(tmp_path: Path, source: Path) -> None:
    job = plan_convert(source, to="mds", **SHARDS)
    said = []

    def meanwhile(_: object) -> None:
        for number in (1, 2):
            try:
                said.append(run_part(job, tmp_path / "out", (number, 3)).num_tasks)
            except DestinationExistsError as e:
                said.append(str(e))
        try:
            convert(source, tmp_path / "out", to="mds", **SHARDS)
        except DestinationExistsError as e:
            said.append(str(e))

    run_part(job, tmp_path / "out", (1, 3), on_progress=meanwhile)
    same, other, whole = said
    assert "another process does task 1/3 right now" in same
    assert other == 1
    assert "a job is at work on it right now" in whole


def test_a_job_that_was_overwritten_can_not_go_on_beneath_the_new_one(tmp_path: Path, source: Path) -> None:
    place = tmp_path / "out"
    interrupt(source, place)
    said = []

    def meanwhile(_: object) -> None:
        try:
            convert(source, place, to="mds", **SHARDS)
        except DestinationExistsError as e:
            said.append(str(e))

    convert(source, place, to="parquet", overwrite=True, on_progress=meanwhile)
    assert said
    assert all("another job is making right now" in message for message in said)
    assert open_corpus(place).format == "parquet"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("put", ["notes", "another corpus", "nothing"])
def test_what_was_put_in_the_place_of_an_old_corpus_meanwhile_stays(tmp_path: Path, source: Path, put: str) -> None:
    place = tmp_path / "out"
    convert(source, place, to="csv")

    def meanwhile(_: object) -> None:
        if put == "notes":
            (place / "notes.txt").write_text("mine")
            return
        shutil.rmtree(place)
        if put == "another corpus":
            shutil.copytree(source, place)

    if put == "nothing":
        convert(source, place, to="parquet", overwrite=True, on_progress=meanwhile)
    else:
        with pytest.raises(DestinationExistsError, match="has been put there since this job began") as error:
            convert(source, place, to="parquet", overwrite=True, on_progress=meanwhile)
        assert "the new corpus is whole, and lies in" in error.value.__notes__[0]
        if put == "notes":
            assert (place / "notes.txt").read_text() == "mine"
            (place / "notes.txt").unlink()
        else:
            assert contents(place) == contents(source)
        convert(source, place, to="parquet", overwrite=True)
    assert open_corpus(place).format == "parquet"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_replacing_goes_on_where_the_old_corpus_was_removed_meanwhile(tmp_path: Path, source: Path) -> None:
    place = tmp_path / "out"
    convert(source, place, to="csv")
    interrupt(source, place, num_tasks=2, overwrite=True)
    shutil.rmtree(place)
    rows: list[int] = []
    convert(source, place, to="mds", on_progress=lambda p: rows.append(p.rows), **SHARDS)
    assert rows == [2500]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("job", ["convert", "pack", "tokenize"])
def test_inputs_that_change_while_a_job_reads_them_are_told(tmp_path: Path, texts: Path, job: str) -> None:
    path = tmp_path / "a.jsonl"

    def meanwhile(_: object) -> None:
        path.write_bytes(path.read_bytes().replace(b"9", b"8"))

    if job == "tokenize":
        path.write_bytes(texts.read_bytes())
    else:
        path.write_text("\n".join(json.dumps({"tokens": [i % 10, 1]}) for i in range(3000)))
    run, how = {
        "convert": (convert, {"to": "mds"}),
        "pack": (pack, {"seq_len": 2}),
        "tokenize": (tokenize, {"tokenizer": gpt2_json(), "add_eos": False}),
    }[job]
    with pytest.raises(DataError, match=r"inputs of this job .* were changed while it read them"):
        run(path, tmp_path / "out", on_progress=meanwhile, **how)
    assert not (tmp_path / "out").exists()


def test_another_way_to_read_the_source_is_another_job(tmp_path: Path) -> None:
    lines = [json.dumps({"a": [i % 10], "b": [i % 7]}) for i in range(3000)]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    read = {"tokens": "a", "fields": []}
    with pytest.raises(StoppedError):
        convert(tmp_path / "a.jsonl", tmp_path / "out", to="mds", read=read, on_progress=stop_after(1), **SHARDS)
    with pytest.raises(DestinationExistsError, match="its inputs have changed"):
        convert(tmp_path / "a.jsonl", tmp_path / "out", to="mds", read={"tokens": "b", "fields": []}, **SHARDS)


def test_texts_named_by_another_path_are_the_same(tmp_path: Path, texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    how: dict[str, Any] = {"tokenizer": gpt2_json(), "add_eos": False, "text": {"split_bytes": 200}}
    with pytest.raises(StoppedError):
        tokenize(texts, tmp_path / "out", on_progress=stop_after(1), **how)
    monkeypatch.chdir(texts.parent)
    assert tokenize(texts.name, tmp_path / "out", **how).num_documents == 40


def test_files_of_others_are_not_cleared_up_with_what_a_failed_job_made(tmp_path: Path, source: Path) -> None:
    place = tmp_path / "out"
    place.mkdir()

    def fail(_: object) -> None:
        (place / "notes.txt").write_text("mine")
        (place / "shard-1-of-my-notes.txt").write_text("mine")
        shutil.rmtree(place / ".tokenyard/job/done")
        raise StoppedError

    with pytest.raises(StoppedError):
        convert(source, place, to="mds", on_progress=fail, **SHARDS)
    assert sorted(p.name for p in place.iterdir()) == ["notes.txt", "shard-1-of-my-notes.txt"]


def test_shards_that_are_gone_before_the_manifest_is_written_are_told(tmp_path: Path, source: Path) -> None:
    place = tmp_path / "out"

    def lose(progress: Any) -> None:
        if progress.rows == 2500:
            sorted(place.glob("*.mds"))[0].unlink()

    with pytest.raises(StorageError, match=r"shard-00000-00000\.mds was written, and is not there any more"):
        convert(source, place, to="mds", on_progress=lose, **SHARDS)
    convert(source, place, to="mds", **SHARDS)
    convert(source, tmp_path / "whole", to="mds", **SHARDS)
    assert contents(place) == contents(tmp_path / "whole")


def test_a_name_that_leaves_no_room_for_the_one_beside_it_is_refused(tmp_path: Path, source: Path) -> None:
    with pytest.raises(StorageError, match=r"238 bytes long.*may have 237.*choose a shorter name"):
        convert(source, tmp_path / ("é" * 119), to="mds")
    assert list(tmp_path.iterdir()) == []
    for _ in range(2):
        convert(source, tmp_path / ("e" + "é" * 118), to="mds", overwrite=True)


@pytest.mark.parametrize("place", ["texts/out", "texts", "texts/../texts/a/out"])
def test_a_corpus_is_not_made_among_its_own_inputs(tmp_path: Path, place: str) -> None:
    (tmp_path / "texts/a").mkdir(parents=True)
    (tmp_path / "texts/a.txt").write_text("a text")
    how: dict[str, Any] = {"tokenizer": gpt2_json(), "add_eos": False, "format": "jsonl"}
    with pytest.raises(ConfigError, match=r"destination lies in .*texts, whose files are the inputs.*outside of it"):
        tokenize(tmp_path / "texts", tmp_path / place, **how)
    with pytest.raises(ConfigError, match=r"the destination lies in"):
        run_part(plan_tokenize(tmp_path / "texts", **how), tmp_path / place, (1, 2))
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a", "a.txt", "texts"]
    assert tokenize(tmp_path / "texts", tmp_path / "texts/.out", **how).num_documents == 1


def test_inputs_that_lie_in_the_corpus_to_be_replaced_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a text"}\n')
    how: dict[str, Any] = {"tokenizer": gpt2_json(), "add_eos": False, "format": "jsonl"}
    inputs = str(tmp_path / "**/*.jsonl")
    assert tokenize(inputs, tmp_path / "out", **how).num_documents == 1
    before = contents(tmp_path / "out")
    with pytest.raises(ConfigError, match=r"out/shard-00000-00000\.jsonl: an input that lies in the destination"):
        tokenize(inputs, tmp_path / "out", overwrite=True, text={"text_field": "tokens"}, **how)
    assert contents(tmp_path / "out") == before

"""Commands that make corpora: tokenize, pack, convert, index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from tokenyard.cli.output import errors, parse_options, print_fields, print_json
from tokenyard.cli.progress import progress
from tokenyard.errors import ConfigError

Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
Workers = Annotated[
    int | None, typer.Option("--workers", "-w", min=1, help="Processes to use (1; of a Ray cluster, all its CPUs).")
]
Executor = Annotated[
    str | None,
    typer.Option(help="local: processes of this machine; ray: those of a Ray cluster that shares the disk (local)."),
]
Address = Annotated[
    str | None, typer.Option(help="Of the Ray cluster: HOST:PORT, or auto, the one this machine is in (auto).")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace a corpus that is there, once the new one is whole; folders only.")
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", "-o", metavar="KEY=VALUE", help="A writer's option, see 'tokenyard formats'; repeatable."),
]
Read = Annotated[
    list[str] | None,
    typer.Option(
        "--read", metavar="KEY=VALUE", help="What a corpus of others doesn't say: tokens, token_dtype, split ..."
    ),
]
Config = Annotated[
    Path | None, typer.Option("--config", "-c", help="YAML with the job's settings; arguments go before them.")
]
Task = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="K/N",
        help="Do one share of N, K from 1 on: for job arrays, on any machines that reach DST. --finish ends it.",
    ),
]
Finish = Annotated[bool, typer.Option("--finish", help="Make the corpus whole, which shares (--task) have written.")]
Destination = Annotated[
    str | None, typer.Argument(metavar="DST", help="The corpus to make: a folder, or a URL (s3://, gs://, az://).")
]


def tokenize(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT... DST", help="Files, globs or folders; then the corpus to make."),
    ] = None,
    tokenizer: Annotated[str | None, typer.Option("--tokenizer", "-t", help="Name, folder or tokenizer.json.")] = None,
    format: Annotated[str | None, typer.Option("--format", "--to", help="The format to write (npy).")] = None,
    engine: Annotated[str | None, typer.Option(help="auto, transformers, fastokens or gigatoken (auto).")] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="How texts are read: kind, text_field, txt_documents, ...; repeatable."),
    ] = None,
    field: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TYPE", help="A field to copy from the source, as 'url=string?'.")
    ] = None,
    eos: Annotated[bool | None, typer.Option("--eos/--no-eos", help="End each document with EOS (yes).")] = None,
    bos: Annotated[bool | None, typer.Option("--bos/--no-bos", help="Begin each document with BOS (no).")] = None,
    eos_token: Annotated[str | None, typer.Option(help="The EOS token, where the tokenizer names none.")] = None,
    bos_token: Annotated[str | None, typer.Option(help="The BOS token, where the tokenizer names none.")] = None,
    special_text: Annotated[
        str | None, typer.Option(help="encode or plain: what '<|endoftext|>' inside a document becomes (encode).")
    ] = None,
    on_bad_record: Annotated[str | None, typer.Option(help="error or skip (error).")] = None,
    max_bad_records: Annotated[int | None, typer.Option(help="With skip: how many at most (1000).")] = None,
    prove_share: Annotated[
        float | None, typer.Option(help="Share of documents encoded again with transformers (0.001).")
    ] = None,
    token_dtype: Annotated[
        str | None, typer.Option(help="uint16, uint32, int32 or int64; what fits by itself.")
    ] = None,
    workers: Workers = None,
    executor: Executor = None,
    address: Address = None,
    overwrite: Overwrite = False,
    task: Task = None,
    finish: Finish = False,
    option: Options = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Tokenize texts (txt, jsonl, csv, parquet, MDS, tars; plain, gz, zst, bz2, xz) into a corpus of documents.

    Example: `tokenyard tokenize 'texts/*.jsonl.zst' data/documents -t tokenizer.json --eos-token '<|endoftext|>' -w 2`
    """
    from tokenyard.converters.tokenize import plan_tokenize as plan
    from tokenyard.converters.tokenize import tokenize as run

    given: dict[str, Any] = {"tokenizer": tokenizer, "format": format, "engine": engine, "special_text": special_text}
    given |= {"add_eos": eos, "add_bos": bos, "eos_token": eos_token, "bos_token": bos_token}
    given |= {"on_bad_record": on_bad_record, "max_bad_records": max_bad_records, "prove_share": prove_share}
    given |= {"token_dtype": token_dtype, "num_workers": workers, "executor": executor, "address": address}
    if inputs and len(inputs) > 1:
        given |= {"inputs": inputs[:-1], "dst": inputs[-1]}
    elif inputs:
        raise ConfigError(f"{inputs[0]}: tokenize takes its inputs and then the corpus to make; see --help")
    settings = _settings("tokenize", config, given, overwrite, option, None)
    if text or field:
        said = {**settings.get("text", {}), **parse_options(text)}
        fields = {**said.get("fields", {}), **{k: str(v) for k, v in parse_options(field, keep_names=True).items()}}
        settings["text"] = {**said, "fields": fields} if fields else said
    _need(settings, "inputs", "dst", "tokenizer")
    _run(run, plan, settings, task, finish, "tokenized", json)


def index(
    path: Annotated[str, typer.Argument(metavar="PATH", help="A corpus that others made.")],
    read: Read = None,
    force: Annotated[bool, typer.Option("--force", help="Index again what is indexed.")] = False,
    json: Json = False,
) -> None:
    """Index a corpus that others made, once, so that it opens at once everywhere.

    Example: `tokenyard index data/streaming-dataset --read tokens=input_ids`
    """
    from tokenyard.corpus.indexing import index_corpus

    manifest = index_corpus(path, force=force, **parse_options(read))
    report = {
        "path": path,
        "format": manifest.format,
        "rows": manifest.num_rows,
        "tokens": manifest.num_tokens,
        "shards": len(manifest.shards),
        "digest": manifest.digests.tokens if manifest.digests else None,
    }
    _tell("indexed", report, json)


def convert(
    src: Annotated[
        str | None, typer.Argument(metavar="SRC", help="The corpus to read: a folder, a file, or a URL.")
    ] = None,
    dst: Destination = None,
    to: Annotated[str | None, typer.Option("--to", "--format", help="The format to write.")] = None,
    token_dtype: Annotated[str | None, typer.Option(help="Write tokens as uint16, uint32, int32 or int64.")] = None,
    shuffle: Annotated[
        int | None, typer.Option(metavar="SEED", min=0, help="Shuffle the rows, on disk; with --task, run each twice.")
    ] = None,
    workers: Workers = None,
    executor: Executor = None,
    address: Address = None,
    overwrite: Overwrite = False,
    task: Task = None,
    finish: Finish = False,
    option: Options = None,
    read: Read = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Convert a corpus to another format, and prove that nothing changed.

    --shuffle SEED brings the rows into the order of a global shuffle with this seed, in two passes over the disk; the
    sum of all row digests proves that they are the same rows. Shares (--task) run twice then: the second time when all
    have ended for the first.

    Example: `tokenyard convert data/corpus-npy data/corpus-mds --to mds -o compression=zstd --workers 2`
    """
    from tokenyard.converters.convert import convert as run
    from tokenyard.converters.convert import plan_convert as plan

    given = {"src": src, "dst": dst, "to": to, "token_dtype": token_dtype, "num_workers": workers}
    given["shuffle"] = shuffle
    given |= {"executor": executor, "address": address}
    settings = _settings("convert", config, given, overwrite, option, read)
    _need(settings, "src", "dst", "to")
    same = "every row read back equals the source's"
    if settings.get("shuffle") is not None:
        same = "shuffled; the rows read back are the source's, each as often"
    title = f"converted: {same} ({settings['to']})"
    _run(run, plan, settings, task, finish, title, json)


def pack(
    src: Annotated[str | None, typer.Argument(metavar="SRC", help="A corpus of documents.")] = None,
    dst: Destination = None,
    seq_len: Annotated[int | None, typer.Option(min=1, help="Tokens in each packed row.")] = None,
    strategy: Annotated[
        str | None, typer.Option(help="concat (cut the stream; the default) or best_fit (split little, pad).")
    ] = None,
    format: Annotated[
        str | None, typer.Option("--format", "--to", help="The format to write; the source's unless given.")
    ] = None,
    drop_field: Annotated[list[str] | None, typer.Option(help="A field of whole documents to leave out.")] = None,
    workers: Workers = None,
    executor: Executor = None,
    address: Address = None,
    overwrite: Overwrite = False,
    task: Task = None,
    finish: Finish = False,
    option: Options = None,
    read: Read = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Pack documents into rows of one length, keeping their boundaries.

    Example: `tokenyard pack data/documents data/packed --seq-len 2048 --strategy best_fit`
    """
    from tokenyard.converters.pack import pack as run
    from tokenyard.converters.pack import plan_pack as plan

    given: dict[str, Any] = {"src": src, "dst": dst, "seq_len": seq_len, "strategy": strategy, "format": format}
    given |= {"num_workers": workers, "drop_fields": tuple(drop_field) if drop_field else None}
    given |= {"executor": executor, "address": address}
    settings = _settings("pack", config, given, overwrite, option, read)
    _need(settings, "src", "dst", "seq_len")
    _run(run, plan, settings, task, finish, "packed", json)


def _settings(
    job: str,
    config: Path | None,
    given: dict[str, Any],
    overwrite: bool,
    option: list[str] | None,
    read: list[str] | None,
) -> dict[str, Any]:
    """A job's keyword arguments: those of the YAML, then those of the command line."""
    settings: dict[str, Any] = {}
    if config is not None:
        from tokenyard.config import load_job

        settings = load_job(config, job)
    options = {**settings.pop("options", {}), **parse_options(option)}
    settings |= {name: value for name, value in given.items() if value is not None}
    if overwrite:
        settings["overwrite"] = True
    if read:
        settings["read"] = {**settings.get("read", {}), **parse_options(read)}
    if clash := sorted(set(options) & set(settings)):
        raise ConfigError(f"--option {clash[0]} is no option of a format; it has an argument of its own")
    return settings | options


#: Settings that a share of a job takes beside its plan.
_HOW = ("dst", "num_workers", "executor", "address", "overwrite")


def _run(
    run: Callable[..., Any],
    plan: Callable[..., Any],
    settings: dict[str, Any],
    task: str | None,
    finish: bool,
    title: str,
    json: bool,
) -> None:
    """Do the whole of a job, or a share of it, and tell what was done."""
    with progress(run.__name__) as show, _told_what_is_kept():
        if task is None:
            report = run(**settings, finish=finish, on_progress=show)
        elif finish:
            raise ConfigError("--task does a share of the work, --finish ends it when all are done: give one of both")
        else:
            from tokenyard.converters.run import run_part

            how = {name: settings.pop(name) for name in _HOW if name in settings}
            part, title = _part(task), f"did its tasks ({task})"
            report = run_part(plan(**settings), how.pop("dst"), part, **how, on_progress=show)
    _tell(title, report.to_dict(), json)


def _part(task: str) -> tuple[int, int]:
    number, slash, count = task.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal()):
        raise ConfigError(f"--task {task}: expected K/N, as 3/16: the third of 16 shares")
    return int(number), int(count)


@contextmanager
def _told_what_is_kept() -> Iterator[None]:
    """Tell at an interrupt, too, what its notes say; of errors they are told with the message."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as e:
        for note in getattr(e, "__notes__", ()):
            errors.print(note, markup=False, highlight=False, soft_wrap=True)
        raise


_FLAGS = {"to": "--to", "seq_len": "--seq-len", "tokenizer": "--tokenizer"}


def _need(settings: dict[str, Any], *names: str) -> None:
    missing = [_FLAGS.get(n, n.upper()) for n in names if settings.get(n) is None]
    if missing:
        raise ConfigError(f"missing {', '.join(missing)}: give it on the command line or in the YAML; see --help")


def _tell(title: str, report: dict[str, Any], json: bool) -> None:
    if json:
        print_json(report)
    else:
        print_fields(title, report)

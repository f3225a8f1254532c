"""Commands that make corpora: tokenize, pack, convert, index."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tokenyard.cli.output import parse_options
from tokenyard.cli.running import (
    Address,
    Config,
    Destination,
    Executor,
    Finish,
    Json,
    Options,
    Overwrite,
    Read,
    Task,
    Workers,
    check_needed,
    job_settings,
    run_or_share,
    tell,
)
from tokenyard.errors import ConfigError


def tokenize(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(metavar="INPUT... DST", help="Files, globs, folders or URLs; then the corpus to make."),
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
    max_bad_records: Annotated[
        int | None,
        typer.Option(
            help="With skip: how many at most, in the whole job; a part counts its own, and --finish all (1000)."
        ),
    ] = None,
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
    settings = job_settings("tokenize", config, given, overwrite, option, None)
    if text or field:
        said = {**settings.get("text", {}), **parse_options(text)}
        fields = {**said.get("fields", {}), **{k: str(v) for k, v in parse_options(field, keep_names=True).items()}}
        settings["text"] = {**said, "fields": fields} if fields else said
    check_needed(settings, "inputs", "dst", "tokenizer")
    run_or_share(run, plan, settings, task, finish, "tokenized", json)


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
    tell("indexed", report, json)


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
    settings = job_settings("convert", config, given, overwrite, option, read)
    check_needed(settings, "src", "dst", "to")
    same = "every row read back equals the source's"
    if settings.get("shuffle") is not None:
        same = "shuffled; the rows read back are the source's, each as often"
    title = f"converted: {same} ({settings['to']})"
    run_or_share(run, plan, settings, task, finish, title, json)


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
    settings = job_settings("pack", config, given, overwrite, option, read)
    check_needed(settings, "src", "dst", "seq_len")
    run_or_share(run, plan, settings, task, finish, "packed", json)

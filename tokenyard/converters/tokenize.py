"""Turn texts into a corpus of documents: one row a document, in the order of the input, for any number of workers."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

from tokenyard.converters.encoding import Encoding
from tokenyard.converters.engines import Choice, EngineName, SpecialText, TokenizerSpec, choose_engine, load_tokenizer
from tokenyard.converters.job import OnProgress, provenance, total_counts
from tokenyard.converters.run import Job, run_job
from tokenyard.converters.settings import JobSettings
from tokenyard.converters.sight import Sight, local_sight
from tokenyard.converters.text import Split, TextOptions, check_outside, group_splits, place_of, plan_texts, size_of
from tokenyard.converters.tokenizing import BadRecords, OnBadRecord, Tokenizing, num_bad, tokenize_splits
from tokenyard.converters.workers import ExecutorName
from tokenyard.errors import ConfigError
from tokenyard.formats.registry import get_format
from tokenyard.schema import Schema, token_dtype_for
from tokenyard.storage import is_url, storage_error

Inputs = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True, kw_only=True)
class TokenizeReport:
    """What tokenizing did.

    ``engine_reasons`` says why this engine and none of the others. ``counts``: documents proven against transformers,
    special text found inside documents, and skipped records by kind (``bad:<kind>``).
    """

    destination: str
    format: str
    tokenizer: str
    engine: str
    engine_reasons: tuple[str, ...]
    notes: tuple[str, ...]
    num_documents: int
    num_tokens: int
    num_input_bytes: int
    num_bad_records: int
    counts: Mapping[str, int]
    token_dtype: str
    digest: str
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class TokenizeSettings(JobSettings):
    """What ``tokenize`` is asked for; see there. Raises ConfigError."""

    tokenizer: str | os.PathLike[str]
    format: str = "npy"
    engine: Literal["auto"] | EngineName = "auto"
    special_text: SpecialText = "encode"
    add_eos: bool = True
    add_bos: bool = False
    eos_token: str | None = None
    bos_token: str | None = None
    on_bad_record: OnBadRecord = "error"
    max_bad_records: int = 1000
    prove_share: float = 0.001
    token_dtype: str | None = None
    text: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.on_bad_record not in ("error", "skip"):
            raise ConfigError(f"on_bad_record: expected error or skip; found {self.on_bad_record!r}")
        if self.max_bad_records < 0:
            raise ConfigError(f"max_bad_records: expected 0 or more; found {self.max_bad_records}")
        if not 0 <= self.prove_share <= 1:
            raise ConfigError(f"prove_share: expected a share from 0 to 1; found {self.prove_share}")


def tokenize(
    inputs: Inputs,
    dst: str | os.PathLike[str],
    *,
    tokenizer: str | os.PathLike[str],
    format: str = "npy",
    engine: Literal["auto"] | EngineName = "auto",
    special_text: SpecialText = "encode",
    add_eos: bool = True,
    add_bos: bool = False,
    eos_token: str | None = None,
    bos_token: str | None = None,
    on_bad_record: OnBadRecord = "error",
    max_bad_records: int = 1000,
    prove_share: float = 0.001,
    token_dtype: str | None = None,
    text: Mapping[str, Any] | None = None,
    num_workers: int | None = None,
    executor: ExecutorName = "local",
    address: str | None = None,
    overwrite: bool = False,
    finish: bool = False,
    on_progress: OnProgress | None = None,
    **options: Any,
) -> TokenizeReport:
    """Encode the documents of ``inputs`` into a corpus at ``dst``.

    ``inputs`` are files, globs, folders, URLs of files or of folders, or a list of these.
    ``text`` holds the options of reading (TextOptions: ``kind``, ``text_field``, ``fields`` to copy, ...), ``options``
    those of the format's writer. ``tokenizer`` is a name, a folder or a tokenizer.json; a bare tokenizer.json names no
    EOS: give ``eos_token``. Documents are encoded without special tokens; ``add_bos`` and ``add_eos`` alone add them.
    ``special_text`` says whether text such as ``<|endoftext|>`` inside a document is encoded as that token or as
    plain text. ``prove_share`` of the documents, and the first of every task, are encoded again with transformers and
    must agree; a hundredth takes as long as the fastest engine takes for all. Records that are no documents stop the
    job, or are skipped and counted up to ``max_bad_records`` in the whole job: a part counts its own, ``finish`` all.

    The rows and bytes written depend on neither ``num_workers``, ``executor`` nor the engine. A job that was
    interrupted goes on, ``finish`` publishes what parts have done, and ``executor`` and ``address`` are as in
    ``convert``.

    Raises DataError that names file and line, UnknownTokenizerError, VerificationError (an engine disagreed, or what
    was written read back differently), ConfigError, DestinationExistsError, StorageError.
    """
    begun = time.monotonic()
    settings = TokenizeSettings(
        tokenizer=tokenizer,
        format=format,
        engine=engine,
        special_text=special_text,
        add_eos=add_eos,
        add_bos=add_bos,
        eos_token=eos_token,
        bos_token=bos_token,
        on_bad_record=on_bad_record,
        max_bad_records=max_bad_records,
        prove_share=prove_share,
        token_dtype=token_dtype,
        text=text,
        options=options,
    )
    planned = _planned(inputs, settings)
    spec, choice = planned.spec, planned.choice
    manifest, outputs = run_job(
        planned.job,
        dst,
        num_workers=num_workers,
        executor=executor,
        address=address,
        overwrite=overwrite,
        finish=finish,
        on_progress=on_progress,
    )
    counts = total_counts(outputs)
    assert manifest.digests is not None
    return TokenizeReport(
        destination=os.fspath(dst),
        format=format,
        tokenizer=spec.name,
        engine=choice.engine.name,
        engine_reasons=choice.reasons,
        notes=(*spec.warnings, *planned.notes, *_special_text_notes(counts, special_text)),
        num_documents=manifest.num_rows,
        num_tokens=manifest.num_tokens,
        num_input_bytes=planned.job.total,
        num_bad_records=num_bad(counts),
        counts=counts,
        token_dtype=manifest.schema.token_dtype,
        digest=manifest.digests.tokens,
        seconds=time.monotonic() - begun,
    )


def plan_tokenize(inputs: Inputs, **settings: Any) -> Job[tuple[Split, ...]]:
    """The job that ``tokenize`` does with these settings."""
    return _planned(inputs, TokenizeSettings.of(**settings)).job


@dataclass(frozen=True, kw_only=True)
class _Planned:
    job: Job[tuple[Split, ...]]
    spec: TokenizerSpec
    choice: Choice
    notes: tuple[str, ...]


def _planned(inputs: Inputs, settings: TokenizeSettings) -> _Planned:
    to = get_format(settings.format)
    writer_options = to.options(settings.options)
    text_options = _text_options(settings.text)
    spec = load_tokenizer(settings.tokenizer, eos_token=settings.eos_token, bos_token=settings.bos_token)
    _check_marks(spec, settings.add_eos, settings.add_bos)
    schema = _schema(spec, text_options, settings.token_dtype)
    plan = plan_texts(inputs, text_options)
    choice = choose_engine(spec, settings.engine, settings.special_text)
    encoding = Encoding(
        spec=choice.spec,
        engine=choice.engine.name,
        special_text=settings.special_text,
        add_bos=settings.add_bos,
        add_eos=settings.add_eos,
        prove_share=settings.prove_share,
    )
    said = {
        **writer_options.model_dump(),
        "add_bos": settings.add_bos,
        "add_eos": settings.add_eos,
        "special_text": settings.special_text,
        "on_bad_record": settings.on_bad_record,
        "text": asdict(text_options),
    }
    tasks = list(group_splits(plan.splits, text_options.split_bytes))
    job = Job(
        kind="tokenize",
        format=to,
        schema=schema,
        options=writer_options,
        provenance=provenance("tokenize", said, tokenizer=spec.fingerprint),
        inputs=lambda: [spec.fingerprint, _modified(tasks)],
        tasks=tasks,
        described=[[_described(split) for split in splits] for splits in tasks],
        shared=lambda target: Tokenizing(
            encoding=encoding,
            texts=text_options,
            target=target,
            on_bad_record=settings.on_bad_record,
            max_bad_records=settings.max_bad_records,
        ),
        run=tokenize_splits,
        reads=[_sight(split.path) for splits in tasks[:1] for split in splits[:1]],
        check_place=lambda dst: check_outside(inputs, dict.fromkeys(s.path for s in plan.splits), dst),
        unit="bytes",
        total=sum(s.num_bytes for s in plan.splits),
        may_change=frozenset({"on_bad_record"}),
        watch=BadRecords(settings.max_bad_records if settings.on_bad_record == "skip" else None).add,
    )
    return _Planned(job=job, spec=spec, choice=choice, notes=tuple(n.message for n in plan.notes))


def _described(split: Split) -> dict[str, Any]:
    """A split for the job's plan; what tells another version of its file is among the job's inputs."""
    return {name: value for name, value in asdict(split).items() if name != "etag"} | {"path": place_of(split.path)}


def _sight(path: str) -> Sight:
    return Sight(name=path, size=partial(size_of, path)) if is_url(path) else local_sight(path)


def _modified(tasks: Sequence[Sequence[Split]]) -> dict[str, int | str | None]:
    """When the files of all splits were changed last; of objects their etags, to which each read holds them."""
    splits = {place_of(split.path): split for splits in tasks for split in splits}
    try:
        return {
            path: split.etag if is_url(path) else os.stat(path).st_mtime_ns for path, split in sorted(splits.items())
        }
    except OSError as e:
        raise storage_error(e, f"can't read {e.filename}") from e


def _text_options(values: Mapping[str, Any] | None) -> TextOptions:
    known = TextOptions.__dataclass_fields__
    if unknown := sorted(set(values or {}) - set(known)):
        raise ConfigError(f"text has no option {', '.join(unknown)}; it has {', '.join(known)}")
    return TextOptions(**dict(values or {}))


def _check_marks(spec: TokenizerSpec, add_eos: bool, add_bos: bool) -> None:
    for wanted, id, name in ((add_eos, spec.eos_id, "eos"), (add_bos, spec.bos_id, "bos")):
        if wanted and id is None:
            raise ConfigError(
                f"{spec.name}: this tokenizer names no {name.upper()} token; give {name}_token (--{name}-token), or "
                f"turn add_{name} off (--no-{name})"
            )


def _schema(spec: TokenizerSpec, texts: TextOptions, token_dtype: str | None) -> Schema:
    schema = Schema(
        token_dtype=token_dtype or token_dtype_for(spec.max_id),
        vocab_size=spec.max_id + 1,
        eos_token_id=spec.eos_id,
        bos_token_id=spec.bos_id,
        tokenizer=spec.fingerprint,
        fields=texts.fields,
    )
    schema.check_writable()
    schema.check_holds(spec.max_id)
    return schema


def _special_text_notes(counts: Mapping[str, int], special_text: SpecialText) -> list[str]:
    found = {n.removeprefix("special:"): c for n, c in counts.items() if n.startswith("special:")}
    if not found:
        return []
    became = "that token's id" if special_text == "encode" else "plain text"
    listed = ", ".join(f"{text} {count} times" for text, count in found.items())
    return [
        f"text of special tokens inside documents ({listed}) was encoded as {became} (special_text: {special_text})"
    ]

"""Settings of the jobs that make corpora; each key is an argument of the function of that name.

No key is needed, since a command line may give what the file leaves out.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from tokenyard.config.reading import Count, ReadConfig
from tokenyard.config.section import Section

TokenDtype = Literal["uint16", "uint32", "int32", "int64"]
Seed = Annotated[int, Field(ge=0, lt=1 << 64)]


class JobConfig(Section):
    """What all jobs take."""

    dst: str | None = None
    """The folder to make, or a URL: s3://, gs:// or az://."""
    num_workers: Count | None = None
    """Processes: 1 when not given, with ray as many as the cluster has CPUs. What is written is always the same."""
    executor: Literal["local", "ray"] = "local"
    """local: processes of this machine. ray: those of a Ray cluster whose nodes share the disk."""
    address: str | None = None
    """Of the Ray cluster: host:port, or auto, which is also meant when not given: the one this machine is in."""
    overwrite: bool = False
    """Whether a corpus that lies at dst is replaced, once the new one is whole; for folders, not for URLs."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the format written, such as shard_bytes and compression; `tokenyard formats` lists them."""


class ConvertConfig(JobConfig):
    """Settings of `convert`: a corpus in another format, proven to hold the same."""

    src: str | list[str] | None = None
    """The corpus: a folder, a file, a list of files, or a URL."""
    to: str | None = None
    """The format to write: npy, mds, webdataset, parquet, jsonl, csv."""
    token_dtype: TokenDtype | None = None
    """The dtype that tokens are written in; the source's when not given."""
    shuffle: Seed | None = None
    """A seed: rows are shuffled, on disk. Not when not given."""
    read: ReadConfig = ReadConfig()
    """How src is read, where others made it."""


class FilterConfig(JobConfig):
    """Settings of `filter`: the rows of some lengths, and those whose fields are as wanted."""

    src: str | list[str] | None = None
    """The corpus."""
    min_tokens: Annotated[int, Field(ge=0)] | None = None
    """The least tokens of a row that is kept."""
    max_tokens: Annotated[int, Field(ge=0)] | None = None
    """The most tokens of a row that is kept."""
    where: list[str] = Field(default_factory=list)
    """Conditions on fields, all of which must hold: 'lang == en', 'score >= 0.5', 'source in [web, books]'."""
    format: str | None = None
    """The format to write; the source's when not given."""
    read: ReadConfig = ReadConfig()
    """How src is read, where others made it."""


class SplitConfig(JobConfig):
    """Settings of `split`: each row into one of several corpora in the folder dst."""

    src: str | list[str] | None = None
    """The corpus."""
    parts: dict[str, Annotated[float, Field(gt=0, lt=1)] | Count] | None = None
    """For each part its share of the rows (0.01) or its number of rows (5000); {validation: 0.01} when not given."""
    rest: str = "train"
    """The part of all other rows."""
    seed: Seed = 0
    """Chooses the rows."""
    format: str | None = None
    """The format to write; the source's when not given."""
    read: ReadConfig = ReadConfig()
    """How src is read, where others made it."""


class MergeConfig(JobConfig):
    """Settings of `merge`: corpora one after another, from any formats."""

    sources: list[str] | None = None
    """The corpora, in the order of the result."""
    format: str | None = None
    """The format to write; the first source's when not given."""
    token_dtype: TokenDtype | None = None
    """The dtype that tokens are written in; the widest of the sources when not given."""
    read: ReadConfig = ReadConfig()
    """How sources are read that others made."""


class PackConfig(JobConfig):
    """Settings of `pack`: documents laid into rows of one length."""

    src: str | list[str] | None = None
    """The corpus of documents."""
    seq_len: Count | None = None
    """Tokens of a packed row."""
    strategy: Literal["concat", "best_fit"] = "concat"
    """concat: documents one after another, cut where a row is full. best_fit: whole where they fit, rows padded."""
    format: str | None = None
    """The format to write; the source's when not given."""
    pad_token_id: Annotated[int, Field(ge=0)] | None = None
    """What best_fit fills rows with; the end-of-sequence id when not given, else 0."""
    drop_fields: list[str] = Field(default_factory=list)
    """Fields of whole documents, which a row that holds parts of several can't have."""
    read: ReadConfig = ReadConfig()
    """How src is read, where others made it."""


class TextConfig(Section):
    """How documents are read from text files."""

    kind: str = "auto"
    """auto: by each file's name. Or one kind for all: txt, jsonl, csv, parquet, mds, tar."""
    text_field: str = "text"
    """The key or column that holds the text."""
    fields: dict[str, str] = Field(default_factory=dict)
    """Further keys or columns to keep, each with its type: {source: "string?", score: float32}."""
    txt_documents: Literal["file", "line"] = "file"
    """What a document is in a txt file."""
    skip_blank_lines: bool = False
    """With txt_documents: line, whether lines of white space alone are left out."""
    csv_delimiter: str | None = None
    """A comma when not given, a tab in .tsv files."""
    tar_member: str | None = None
    """The extension of the tar members that hold the text; txt when not given, else json."""
    max_document_bytes: Count = 256 << 20
    """A longer document is a bad record."""
    split_bytes: Count = 64 << 20
    """About how much text one task reads."""


class TokenizeConfig(JobConfig):
    """Settings of `tokenize`: text files to a corpus of documents."""

    inputs: str | list[str] | None = None
    """Files, folders, patterns or URLs of files and folders; plain or as gz, zst, bz2 or xz."""
    tokenizer: str | None = None
    """A tokenizer.json, a folder with one, or a name on the Hugging Face hub."""
    format: str = "npy"
    """The format to write."""
    text: TextConfig = TextConfig()
    """How documents are read."""
    engine: Literal["auto", "transformers", "fastokens", "gigatoken"] = "auto"
    """What encodes. auto: the fastest that is installed, takes the tokenizer and agrees with transformers on a test."""
    add_eos: bool = True
    """Whether each document ends with the end-of-sequence token."""
    add_bos: bool = False
    """Whether each document begins with the beginning-of-sequence token."""
    eos_token: str | None = None
    """The end-of-sequence token, where the tokenizer names none."""
    bos_token: str | None = None
    """The beginning-of-sequence token, where the tokenizer names none."""
    special_text: Literal["encode", "plain"] = "encode"
    """What text such as <|endoftext|> inside a document becomes: the special token, or the tokens of its letters."""
    on_bad_record: Literal["error", "skip"] = "error"
    """What happens at a record that is broken or has no text."""
    max_bad_records: Annotated[int, Field(ge=0)] = 1000
    """With on_bad_record: skip, how many are borne in the whole job before it fails; of a part, in the part, and the
    end (--finish) counts those of all."""
    prove_share: Annotated[float, Field(ge=0, le=1)] = 0.001
    """The share of documents that are encoded by transformers too, and must agree."""
    token_dtype: TokenDtype | None = None
    """The dtype that tokens are written in; the narrowest that holds every id when not given."""

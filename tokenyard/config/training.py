"""Settings of a training run's data: what is read, in which order, and how it is brought to the model.

Paths are relative to the working directory, as on a command line.
"""

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tokenyard.config.reading import Count, ReadConfig
from tokenyard.config.section import Section
from tokenyard.config.sources import SourceConfig

AutoCount = Literal["auto"] | Count


class SampleConfig(Section):
    """What a sample is."""

    mode: Literal["concat", "rows"] = "concat"
    """concat: windows over the stream of all tokens, across rows and shards. rows: a row is a sample."""
    seq_len: Count | None = None
    """Tokens of a sample. Not given: for concat that of packed rows, else 2,048; for rows the longest of each batch."""
    labels: Literal["shifted", "same", "none"] = "shifted"
    """shifted: label t is the token after input t. same: for models that shift inside, as Hugging Face's do. none."""
    boundaries: bool = False
    """Whether batches say where documents begin: position_ids, document_ids, cu_seqlens and max_seqlen."""
    mask_boundaries: bool = False
    """Whether labels are masked (-100) that lie in another document than their input."""
    documents: Literal["auto", "rows", "lengths", "eos"] = "auto"
    """What begins a document, for both. rows: each row is one. lengths: those that packed rows carry. eos: the token
    after each eos_token_id, for packed corpora of others. auto: lengths where rows carry them, else rows."""
    eos_token_id: Annotated[int, Field(ge=0)] | None = None
    """The id that documents end with, for documents: eos; that of the corpus when not given."""

    @model_validator(mode="after")
    def _labels_to_mask(self) -> Self:
        if self.mask_boundaries and self.labels == "none":
            raise ValueError(
                "data.sample.mask_boundaries masks labels, but data.sample.labels is none; change one of them"
            )
        return self

    @model_validator(mode="after")
    def _documents_to_tell(self) -> Self:
        if self.documents != "auto" and not (self.boundaries or self.mask_boundaries):
            raise ValueError(
                f"data.sample.documents is {self.documents}, but nothing asks where documents begin; set "
                "data.sample.boundaries or data.sample.mask_boundaries, or leave documents out"
            )
        if self.eos_token_id is not None and self.documents != "eos":
            raise ValueError(
                f"data.sample.eos_token_id is {self.eos_token_id}, which needs data.sample.documents: eos, not "
                f"{self.documents}"
            )
        return self


class DataConfig(ReadConfig):
    """What is read. The keys that `open_corpus` takes, format among them, are about path; sources have their own."""

    path: str | list[str] | None = None
    """One corpus: a folder, a file, a list of files, or a URL. This or sources is needed."""
    sources: list[SourceConfig] | None = None
    """Several corpora, in any formats, mixed by weights; in place of path."""
    weights_in: Literal["tokens", "samples"] = "tokens"
    """What the weights of sources are shares of."""
    allow_different_tokenizers: bool = False
    """Whether sources may have ids of different tokenizers or vocabularies."""
    sample: SampleConfig = SampleConfig()

    @model_validator(mode="after")
    def _one_corpus_or_several(self) -> Self:
        if self.path is None and not self.sources:
            raise ValueError("one of data.path (a corpus) and data.sources (a mixture of several) is needed")
        if self.path is not None and self.sources is not None:
            raise ValueError("data.path and data.sources are both given; keep one, or make path one of the sources")
        misplaced: Iterable[str]
        if self.sources is None:
            misplaced, about, given = ("weights_in", "allow_different_tokenizers"), "data.sources", "data.path"
            way_out = "leave it out"
        else:
            misplaced, about, given = ReadConfig.model_fields, "data.path", "data.sources"
            way_out = "give it to the sources that need it"
        for name in misplaced:
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"data.{name} is about {about}, but {given} is given; {way_out}")
        return self

    @model_validator(mode="after")
    def _sources_with_names_of_their_own(self) -> Self:
        places: dict[str, int] = {}
        for i, source in enumerate(self.sources or []):
            if (first := places.setdefault(source.name, i)) != i:
                raise ValueError(
                    f"data.sources.{first} and data.sources.{i} are both named {source.name!r}; give one another name "
                    f"by data.sources.{i}.name"
                )
        return self


class SegmentConfig(Section):
    """What changes in the middle of a run. What the epoch has given by then is not given again."""

    from_step: Count
    """The step of the run, counted over all epochs, from which on it holds."""
    global_batch_size: Count | None = None
    """A batch ramp: samples of one optimizer step from here on."""
    seq_len: Count | None = None
    """A sequence-length warm-up: tokens of a sample from here on. Within an epoch it needs order.unit_tokens."""
    weights: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]] | None = None
    """Weights of data.sources from here on, by name; a source that isn't named is not drawn from."""

    @model_validator(mode="after")
    def _something_to_change(self) -> Self:
        if self.weights is not None and not self.weights:
            raise ValueError("weights names no source to draw from; give one or more, or leave weights out")
        if self.global_batch_size is None and self.seq_len is None and self.weights is None:
            raise ValueError(
                f"from step {self.from_step} on nothing changes; give global_batch_size, seq_len or weights, or leave "
                "the segment out"
            )
        return self


class LengthGroupingConfig(Section):
    """Global batches of rows of like length, for data.sample.mode rows."""

    steps: Annotated[int, Field(ge=2)]
    """Steps whose samples are sorted by length and shared out among them. More: less padding, lengths less mixed."""


class TokenBudgetConfig(Section):
    """Global batches of as many rows as a number of tokens allows, padding included, for data.sample.mode rows."""

    tokens: Count
    """The most that a micro-batch has: its rows times the tokens of the longest."""
    micro_batches: Count
    """Micro-batches of one optimizer step over all ranks, a multiple of their number."""


class OrderConfig(Section):
    """In which order samples come; a pure function of these numbers, whatever reads them."""

    shuffle: Literal["block", "global", "none"] = "block"
    """block: quick on every format, since neighbours are read together. global: one permutation of all. none."""
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] = 0
    """Another seed is another order."""
    global_batch_size: Count | None = None
    """Samples of one optimizer step over all ranks. This or token_budget is needed."""
    token_budget: TokenBudgetConfig | None = None
    """In place of global_batch_size: as many samples as a number of tokens allows."""
    length_grouping: LengthGroupingConfig | None = None
    """Rows of like length are brought together, within some steps."""
    last_batch: Literal["drop", "pad"] = "drop"
    """What becomes of samples that fill no global batch. pad: some come twice, and sample_mask says which."""
    block_samples: Count = 1024
    """Neighbouring samples that shuffle: block keeps together."""
    window_blocks: AutoCount = "auto"
    """Blocks whose samples are mixed with each other."""
    lanes: AutoCount = "auto"
    """Stretches of the epoch that are read side by side, so that each node reads only its own."""
    epoch_samples: Count | None = None
    """Samples of an epoch of data.sources, whose own epochs go by apart from it; an epoch has no end when not given."""
    unit_tokens: Count | None = None
    """Tokens that the order keeps together: a multiple of each seq_len, where segments change it within an epoch."""
    segments: list[SegmentConfig] = Field(default_factory=list)
    """Changes that are planned, by ascending from_step."""

    @model_validator(mode="after")
    def _one_size_of_batches(self) -> Self:
        if self.global_batch_size is None and self.token_budget is None:
            raise ValueError(
                "one of order.global_batch_size (samples of a step) and order.token_budget (tokens of a micro-batch) "
                "is needed"
            )
        if self.token_budget is None:
            return self
        for name, why in (
            ("global_batch_size", "both say how large batches are; keep one"),
            (
                "segments",
                "steps have no fixed place in the order; change settings by load_state_dict(new_segment=True)",
            ),
            ("length_grouping", "only global batches of a fixed number of samples are grouped; keep one"),
        ):
            if getattr(self, name):
                raise ValueError(f"{name} is given beside order.token_budget, but {why}")
        return self

    @model_validator(mode="after")
    def _lanes_to_walk(self) -> Self:
        if self.lanes != "auto" and self.lanes > 1:
            if self.shuffle != "block":
                raise ValueError(f"lanes is {self.lanes}, which needs order.shuffle: block, not {self.shuffle}")
            if self.global_batch_size is None:
                raise ValueError(
                    f"lanes is {self.lanes}, but order.token_budget takes one sample after another, in one lane; "
                    "leave lanes out"
                )
            if self.global_batch_size % self.lanes:
                raise ValueError(
                    f"lanes is {self.lanes}, which must divide order.global_batch_size, {self.global_batch_size}"
                )
        return self


class CacheConfig(Section):
    """A folder on a local disk through which corpora at URLs are read, shared by all ranks and workers of a node."""

    bytes: Count
    """The most that it holds. What fits is fetched once; of larger corpora, what is needed next."""
    path: str | None = None
    """The folder, on a local disk; `streaming` in the user's cache (TOKENYARD_CACHE) when not given."""


class LoaderConfig(Section):
    """How batches are brought to the model; nothing here changes what is in them."""

    num_threads: Annotated[int, Field(ge=0)] = 2
    """Threads of the process that read ahead; 0 reads when asked. Not used with num_workers."""
    num_workers: Annotated[int, Field(ge=0)] = 0
    """Worker processes that read ahead in place of threads, as those of torch's DataLoader."""
    micro_batch_size: Count | None = None
    """Samples of one forward pass on one rank; global_batch_size / ranks when not given."""
    prefetch_factor: Count | None = None
    """Batches that each thread or worker is ahead; 4 when not given."""
    pin_memory: Literal["auto"] | bool = "auto"
    """Whether batches lie in page-locked memory, from which copies to a GPU overlap. auto: where there is CUDA."""
    persistent_workers: bool = False
    """Whether worker processes live on from epoch to epoch."""
    multiprocessing_context: Literal["fork", "spawn", "forkserver"] | None = None
    """How worker processes are started; as Python does when not given."""
    cache_bytes: Annotated[int, Field(ge=0)] = 1 << 30
    """Bytes of decoded data kept in memory, in each process that reads; compressed formats only."""
    cache: CacheConfig | None = None
    """Where corpora at URLs are kept while they are trained on. Without it each range is fetched when it is read."""

    @model_validator(mode="after")
    def _workers_to_set_up(self) -> Self:
        if not self.num_workers:
            for name, given in (
                ("persistent_workers", self.persistent_workers),
                ("multiprocessing_context", self.multiprocessing_context is not None),
            ):
                if given:
                    raise ValueError(
                        f"loader.{name} is about worker processes, but loader.num_workers is 0; set num_workers to 1 "
                        f"or more, or leave {name} out"
                    )
            if self.prefetch_factor is not None and not self.num_threads:
                raise ValueError(
                    "loader.prefetch_factor reads ahead, but loader.num_threads and loader.num_workers are 0; set one "
                    "of them to 1 or more, or leave prefetch_factor out"
                )
        return self


class TrainConfig(Section):
    """Everything that `build_dataloader` needs."""

    data: DataConfig
    order: OrderConfig
    loader: LoaderConfig = LoaderConfig()

    @model_validator(mode="after")
    def _batches_by_length(self) -> Self:
        sample = self.data.sample
        for name in ("token_budget", "length_grouping"):
            if getattr(self.order, name) is None:
                continue
            if sample.mode != "rows":
                raise ValueError(
                    f"order.{name} is about the lengths of rows, but data.sample.mode is {sample.mode}, whose samples "
                    "have one length; set it to rows, or give order.global_batch_size alone"
                )
            if sample.seq_len is not None:
                raise ValueError(
                    f"order.{name} saves padding, but data.sample.seq_len pads every row to {sample.seq_len} tokens; "
                    "leave seq_len out"
                )
        if self.order.token_budget is not None and self.loader.micro_batch_size is not None:
            raise ValueError(
                "loader.micro_batch_size is given beside order.token_budget, which says how large micro-batches are; "
                "keep one"
            )
        return self

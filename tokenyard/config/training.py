"""Settings of a training run's data: what is read, in which order, and how it is brought to the model.

Paths are relative to the working directory, as on a command line.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tokenyard.config.reading import Count, ReadConfig
from tokenyard.config.section import Section

AutoCount = Literal["auto"] | Count


class SampleConfig(Section):
    """What a sample is."""

    mode: Literal["concat", "rows"] = "concat"
    """concat: windows over the stream of all tokens, across rows and shards. rows: a row is a sample."""
    seq_len: Count | None = None
    """Tokens of a sample. Not given: 2,048 for concat; for rows, which are padded to it, the longest of each batch."""
    labels: Literal["shifted", "same", "none"] = "shifted"
    """shifted: label t is the token after input t. same: for models that shift inside, as Hugging Face's do. none."""
    boundaries: bool = False
    """Whether batches say where documents begin: position_ids, document_ids, cu_seqlens and max_seqlen."""
    mask_boundaries: bool = False
    """Whether labels are masked (-100) that lie in another document than their input."""

    @model_validator(mode="after")
    def _labels_to_mask(self) -> Self:
        if self.mask_boundaries and self.labels == "none":
            raise ValueError(
                "data.sample.mask_boundaries masks labels, but data.sample.labels is none; change one of them"
            )
        return self


class DataConfig(ReadConfig):
    """What is read. The keys beside path, format and sample are for corpora that others made."""

    path: str | list[str]
    """A folder, a file, a list of files, or a file:// URL."""
    sample: SampleConfig = SampleConfig()


class OrderConfig(Section):
    """In which order samples come; a pure function of these numbers, whatever reads them."""

    shuffle: Literal["block", "global", "none"] = "block"
    """block: quick on every format, since neighbours are read together. global: one permutation of all. none."""
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] = 0
    """Another seed is another order."""
    global_batch_size: Count
    """Samples of one optimizer step over all ranks."""
    last_batch: Literal["drop", "pad"] = "drop"
    """What becomes of samples that fill no global batch. pad: some come twice, and sample_mask says which."""
    block_samples: Count = 1024
    """Neighbouring samples that shuffle: block keeps together."""
    window_blocks: AutoCount = "auto"
    """Blocks whose samples are mixed with each other."""
    lanes: AutoCount = "auto"
    """Stretches of the epoch that are read side by side, so that each node reads only its own."""

    @model_validator(mode="after")
    def _lanes_to_walk(self) -> Self:
        if self.lanes != "auto" and self.lanes > 1:
            if self.shuffle != "block":
                raise ValueError(f"order.lanes is {self.lanes}, which needs order.shuffle: block, not {self.shuffle}")
            if self.global_batch_size % self.lanes:
                raise ValueError(
                    f"order.lanes is {self.lanes}, which must divide order.global_batch_size, {self.global_batch_size}"
                )
        return self


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

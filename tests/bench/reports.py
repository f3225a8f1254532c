"""Reports that were not measured: any figures, for tests of what is made of them."""

from pathlib import Path

from tokenyard.bench.choices import choose
from tokenyard.bench.grades import grade_all
from tokenyard.bench.metrics import METRICS, Figure
from tokenyard.bench.results import BenchReport, PeerResult, VariantResult
from tokenyard.bench.sample import Sample
from tokenyard.bench.variants import parse_variants

#: Figures that differ by format as real ones do: shuffled read (Mtok/s), size (bytes), one row (µs).
TYPICAL = {
    "npy": (600.0, 4.2e6, 12.0),
    "mds": (590.0, 4.21e6, 13.0),
    "mds:zstd": (90.0, 3.3e6, 2300.0),
    "webdataset": (570.0, 5.2e6, 14.0),
    "webdataset:gz": (30.0, 3.2e6, 9000.0),
    "parquet": (80.0, 2.6e6, 6000.0),
    "parquet:lz4": (110.0, 3.4e6, 4700.0),
    "jsonl": (9.0, 12.4e6, 52000.0),
    "jsonl:zstd": (8.0, 4.0e6, 50000.0),
    "csv": (10.0, 12.3e6, 45000.0),
}
RAW_BYTES = 4 << 20


def figures(speed: float, size: float, latency: float, *, cold: bool = True) -> dict[str, Figure]:
    values = dict.fromkeys(METRICS, 1.0)
    values |= {"size": size, "ratio": RAW_BYTES / size, "row_p50": latency, "row_p99": 3 * latency}
    values |= {"loader": speed, "inline": speed, "gather": speed, "sequential": 2 * speed, "loader_cold": speed / 2}
    return {
        key: Figure(values=(0.9 * value, value, 1.1 * value))
        for key, value in values.items()
        if cold or not key.endswith("_cold")
    }


def made_report(source: str = "data/packed", *, cold: bool = True, peers: bool = True) -> BenchReport:
    """A report with every format, and two peers of which one is missing."""
    variants = parse_variants(list(TYPICAL))
    found = {variant.spec: figures(*TYPICAL[variant.spec], cold=cold) for variant in variants}
    results = tuple(
        VariantResult(
            variant=variant,
            figures=found[variant.spec],
            num_shards=8,
            digest="ty1:" + "0" * 64,
            commands={"write": f"python -m worker write {variant.key}", "read": f"python -m worker {variant.key}"},
        )
        for variant in variants
    )
    told = {"package": "mosaicml-streaming", "work": "training", "variant": "mds", "command": "python -I script.py"}
    peer_results = (
        PeerResult(name="StreamingDataset", version="0.13.0", figures={"loader": Figure(values=(9.0,))}, **told),
        PeerResult(name="WebDataset", problem="webdataset is not installed", **told),
    )
    return BenchReport(
        command="tokenyard bench data/packed",
        begun="2026-01-31T12:00+00:00",
        sample=Sample(
            path=Path("sample"),
            source=source,
            source_format="npy",
            num_rows=1024,
            num_tokens=RAW_BYTES // 2,
            raw_bytes=RAW_BYTES,
            token_dtype="uint16",
            layout="packed",
            row_length=2048,
            mode="rows",
            of_rows=1 << 20,
            of_tokens=RAW_BYTES << 9,
            of_bytes=RAW_BYTES << 10,
            digest="ty1:" + "0" * 64,
            is_whole=False,
        ),
        settings={"rounds": 3, "seconds": 1.0, "batch_size": 16, "shard_bytes": 8 << 20},
        machine={
            "cpu": "A processor",
            "cores": 2,
            "memory_bytes": 32 << 30,
            "file_system": "ext4",
            "system": "Linux",
            "python": "3.11",
            "versions": {"numpy": "2.0"},
        },
        disk=Figure(values=(500.0,)),
        tokens_per_sample=2048.0,
        variants=results,
        peers=peer_results if peers else (),
        grades=grade_all(found),
        choices=choose(
            found,
            titles={v.spec: v.title for v in variants},
            formats={v.spec: v.format for v in variants},
            is_large=False,
        ),
        notes=("A note.",),
    )

"""Hugging Face's datasets on Parquet that they wrote: map-style, and as an IterableDataset with a buffer of 1,000."""

import datasets
import numpy as np
from shared import checked, collate, loader, written

SHARDS = 24
BUFFER = 1000

datasets.disable_progress_bars()


def files_of(rows, folder):
    def write(out):
        features = datasets.Features(
            {"number": datasets.Value("int64"), "tokens": datasets.List(datasets.Value("uint16"))}
        )
        for shard, numbers in enumerate(np.array_split(np.arange(len(rows)), min(SHARDS, len(rows)))):
            columns = {"number": numbers, "tokens": list(rows[numbers])}
            datasets.Dataset.from_dict(columns, features=features).to_parquet(out / f"{shard:05d}.parquet")

    return [str(path) for path in sorted(written(folder / "parquet", write).glob("*.parquet"))]


def numbered(samples):
    return collate([(int(sample["number"]), sample["tokens"]) for sample in samples])


def map_style(rows, folder, *, batch_size, num_workers):
    rows = np.load(rows, mmap_mode="r")
    dataset = datasets.Dataset.from_parquet(files_of(rows, folder), cache_dir="cache").with_format("numpy")
    options = {"batch_size": batch_size, "num_workers": num_workers}
    return loader(dataset, shuffle=True, collate_fn=numbered, **options), checked(rows)


def iterable(rows, folder, *, batch_size, num_workers):
    rows = np.load(rows, mmap_mode="r")
    files = files_of(rows, folder)
    dataset = datasets.load_dataset("parquet", data_files=files, split="train", streaming=True, cache_dir="cache")
    dataset = dataset.shuffle(seed=1, buffer_size=BUFFER).with_format("numpy")
    return loader(dataset, batch_size=batch_size, num_workers=num_workers, collate_fn=numbered), checked(rows)

"""Megatron-core: IndexedDataset by itself, a row a document, and GPTDataset, which makes samples of documents."""

import numpy as np
import torch
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder, get_bin_path, get_idx_path
from megatron.core.datasets.utils import Split
from shared import checked, loader, written
from torch.utils.data import Dataset, default_collate


class Numbered(Dataset):
    """Gives what `collate` takes."""

    def __init__(self, documents):
        self.documents = documents

    def __len__(self):
        return len(self.documents)

    def __getitem__(self, number):
        return number, self.documents[number]


class Ids:
    """As much of a tokenizer as GPTDataset asks for."""

    vocab_size = 50257
    eod = 50256
    pad = -1

    def __init__(self):
        self.unique_identifiers = {"class": "ids"}


def indexed_dataset(documents, folder, name):
    def write(out):
        builder = IndexedDatasetBuilder(get_bin_path(f"{out}/tokens"), dtype=np.uint16)
        for document in documents:
            builder.add_document(torch.from_numpy(document.astype(np.int32)), [len(document)])
        builder.finalize(get_idx_path(f"{out}/tokens"))

    return IndexedDataset(f"{written(folder / name, write)}/tokens")


def indexed(rows, folder, *, batch_size, num_workers):
    rows = np.load(rows, mmap_mode="r")
    dataset = Numbered(indexed_dataset(rows, folder, "megatron"))
    return loader(dataset, shuffle=True, batch_size=batch_size, num_workers=num_workers), checked(rows)


def documents_of(rows):
    """The rows, or the documents whose lengths lie beside."""
    tokens = np.load(rows, mmap_mode="r")
    if tokens.ndim == 2:
        return tokens
    return np.split(tokens, np.cumsum(np.load(rows.with_name("lengths.npy")))[:-1])


def gpt(rows, folder, *, batch_size, num_workers, seq_len=2048):
    documents = documents_of(rows)
    dataset = indexed_dataset(
        documents, folder, "megatron" if isinstance(documents, np.ndarray) else "megatron-documents"
    )
    config = GPTDatasetConfig(
        random_seed=1,
        sequence_length=seq_len,
        split="1,0,0",
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
        tokenizer=Ids(),
        path_to_cache="cache",
        mid_level_dataset_surplus=0.005,
    )
    samples = GPTDataset(dataset, "tokens", np.arange(len(dataset)), None, Split.train, config)
    highest = max(int(document.max()) for document in documents)

    def check(batch):
        """Samples have no numbers by which they could be looked up: labels must be the tokens shifted, ids known."""
        tokens, labels = batch["tokens"].numpy(), batch["labels"].numpy()
        assert np.array_equal(tokens[:, 1:], labels[:, :-1]), "labels are not the tokens shifted"
        assert tokens.max() <= highest, "other tokens"

    options = {"batch_size": batch_size, "num_workers": num_workers}
    return loader(samples, shuffle=True, collate_fn=default_collate, **options), check

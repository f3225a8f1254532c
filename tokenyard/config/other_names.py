"""What other loaders call settings, mosaicml-streaming and torch's DataLoader among them, and the key of ours."""

#: For each name the key of ours that is meant, and what else there is to say.
OTHER_NAMES = {
    "local": ("data.path", ""),
    "remote": ("data.path", " It takes URLs; loader.cache names a folder on a local disk to keep what was read"),
    "streams": ("data.sources", ""),
    "proportion": ("data.sources.weight", ""),
    "cache_limit": ("loader.cache.bytes", ""),
    "predownload": ("loader.prefetch_factor", ""),
    "shuffle_seed": ("order.seed", ""),
    "shuffle_algo": ("order.shuffle", " It is block, global or none"),
    "shuffle_block_size": ("order.block_samples", ""),
    "num_canonical_nodes": ("order.lanes", " The order is the same on any number of nodes, so leave it out"),
    "epoch_size": ("order.epoch_samples", " It is about data.sources; of one corpus an epoch is all of it"),
    "drop_last": ("order.last_batch", " It is drop or pad"),
}

"""The manifest: what a corpus is, shard by shard. A corpus is whole exactly when its manifest is there.

It holds nothing that changes from run to run (no time, host, absolute path or worker count), so equal work gives equal
bytes. It lies at ``.tokenyard/manifest.json``.
"""

from tokenyard.manifest.entries import FileInfo, ShardInfo, check_name, shard_of, shard_to_dict
from tokenyard.manifest.model import HOME, MANIFEST_NAME, MANIFEST_VERSION, MARKER_NAME, Layout, Manifest

__all__ = [
    "HOME",
    "MANIFEST_NAME",
    "MANIFEST_VERSION",
    "MARKER_NAME",
    "FileInfo",
    "Layout",
    "Manifest",
    "ShardInfo",
    "check_name",
    "shard_of",
    "shard_to_dict",
]

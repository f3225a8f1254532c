"""A folder on a local disk, bounded in bytes, that holds pieces of remote files for all processes of a node."""

from tokenyard.storage.cache.cached_file import CachedFile
from tokenyard.storage.cache.counts import Counters, Counts
from tokenyard.storage.cache.disk import DiskCache
from tokenyard.storage.cache.eviction import LookAhead, Outlook
from tokenyard.storage.cache.folder_cache import FolderCache
from tokenyard.storage.cache.names import NEVER, Piece
from tokenyard.storage.cache.ranks import Rank, Ranks

__all__ = [
    "NEVER",
    "CachedFile",
    "Counters",
    "Counts",
    "DiskCache",
    "FolderCache",
    "LookAhead",
    "Outlook",
    "Piece",
    "Rank",
    "Ranks",
]

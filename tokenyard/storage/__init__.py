"""Where the bytes of a corpus lie: reading, mapping and atomic publishing."""

from tokenyard.storage.bucket import Bucket
from tokenyard.storage.errors import storage_error
from tokenyard.storage.exchange import swap
from tokenyard.storage.folder import Folder, PublishedFile, checksum, remove_tree
from tokenyard.storage.lines import Lines
from tokenyard.storage.mounts import quick_mode
from tokenyard.storage.object_file import ObjectFile
from tokenyard.storage.object_path import ObjectPath
from tokenyard.storage.objects import is_url
from tokenyard.storage.raw_file import RawFile, ReadMode
from tokenyard.storage.regular import open_regular
from tokenyard.storage.syncing import sync_folder
from tokenyard.storage.target_bucket import TargetBucket

__all__ = [
    "Bucket",
    "Folder",
    "Lines",
    "ObjectFile",
    "ObjectPath",
    "PublishedFile",
    "RawFile",
    "ReadMode",
    "TargetBucket",
    "checksum",
    "is_url",
    "open_regular",
    "quick_mode",
    "remove_tree",
    "storage_error",
    "swap",
    "sync_folder",
]

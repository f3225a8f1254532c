"""Where the bytes of a corpus lie: reading, mapping and atomic publishing."""

from tokenyard.storage.folder import Folder, PublishedFile, checksum, remove_tree, storage_error, sync_folder

__all__ = ["Folder", "PublishedFile", "checksum", "remove_tree", "storage_error", "sync_folder"]

"""What the system says when files can't be read or written, with the way out."""

from __future__ import annotations

import errno

from tokenyard.errors import StorageError


def storage_error(error: OSError, what: str) -> StorageError:
    """An OSError as a StorageError that says the way out; one that says it already as it is."""
    if isinstance(error, StorageError):
        return error
    advice = {
        errno.ENOSPC: "the disk is full; free space, then run the command again",
        errno.EDQUOT: "the quota is used up; free space, then run the command again",
        errno.EMFILE: "too many open files; raise the limit (ulimit -n)",
        errno.EFBIG: "the file is larger than this system or its limits allow; use smaller shards",
        errno.EACCES: "no permission; check the owner and mode of the folder",
        errno.EPERM: "not permitted; check the owner and mode of the folder",
        errno.EROFS: "the file system is read-only; choose another folder",
        errno.ENOENT: "no such file or folder",
        errno.EEXIST: "a file is in the way where a folder should be",
        errno.ENOTDIR: "a file is in the way where a folder should be",
    }.get(error.errno or 0, error.strerror or str(error))
    return StorageError(f"{what}: {advice}")

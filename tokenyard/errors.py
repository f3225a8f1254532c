"""Every error that tokenyard raises on purpose.

::

    TokenyardError
    ├── ConfigError (ValueError)              a setting, an option or a YAML key is wrong
    ├── UnknownFormatError (ValueError)       no such format is registered
    ├── UnknownTokenizerError (ValueError)    a tokenizer can't be found or can't be trusted
    ├── MissingDependencyError (ImportError)  an optional package is not installed
    ├── SchemaError (ValueError)              rows, fields or ids don't fit the declared schema
    ├── DataError (ValueError)                what a file holds is damaged, or not what was promised
    │   └── NoTokensError                     rows are there, but no column of token ids
    ├── TransformError (ValueError)           a transform returned what can't be trained on
    ├── VerificationError (ValueError)        a proof failed: what was written is not what was read
    ├── BenchmarkError (RuntimeError)         a measurement failed, or took too long
    └── StorageError (OSError)                a file can't be read or written
        ├── NotACorpusError                   nothing there that any format recognizes
        ├── IncompleteCorpusError             a job's marker without its manifest
        └── DestinationExistsError            the destination is taken

A message says what was expected, what was found, where (path, shard, row, key), and the way out.
"""

#: What a terminal would obey, and not show.
_CONTROLS = {c: f"\\x{c:02x}" for c in (*range(9), *range(11, 32), *range(127, 160))}


class TokenyardError(Exception):
    """Base of all errors raised on purpose.

    Its text can be printed anywhere, whatever names a file brought into it: control characters, and what is no Unicode
    text, are spelled out.
    """

    def __str__(self) -> str:
        return super().__str__().encode("utf-8", "backslashreplace").decode().translate(_CONTROLS)


class ConfigError(TokenyardError, ValueError):
    """A setting, an option or a YAML key is wrong."""


class UnknownFormatError(TokenyardError, ValueError):
    """No format of that name is registered."""


class UnknownTokenizerError(TokenyardError, ValueError):
    """A tokenizer can't be found, or gives no ids."""


class MissingDependencyError(TokenyardError, ImportError):
    """An optional package is not installed."""


class SchemaError(TokenyardError, ValueError):
    """Rows, fields or token ids don't fit the declared schema."""


class DataError(TokenyardError, ValueError):
    """What a file holds is damaged, or is not what was promised."""


class NoTokensError(DataError):
    """There are rows, but no column of token ids; texts, perhaps. ``num_rows``: how many, where that is known."""

    def __init__(self, message: str, num_rows: int | None = None) -> None:
        super().__init__(message, num_rows)
        self.num_rows = num_rows

    def __str__(self) -> str:
        return str(DataError(self.args[0]))


class TransformError(TokenyardError, ValueError):
    """A transform returned what can't be trained on."""


class VerificationError(TokenyardError, ValueError):
    """A proof failed: what was written is not what was read."""


class BenchmarkError(TokenyardError, RuntimeError):
    """A measurement failed, or took too long."""


class StorageError(TokenyardError, OSError):
    """A file can't be read or written."""


class NotACorpusError(StorageError):
    """Nothing there that any format recognizes."""


class IncompleteCorpusError(StorageError):
    """A job began here and did not end: its marker is there, its manifest is not."""


class DestinationExistsError(StorageError):
    """The destination is taken, and replacing it was not asked for."""

"""Mutants of a corpus: its files, damaged or forged in a way that a number decides.

Files are bytes by name. A mutation says in a few words what it did. Most mutants of our own corpora are sealed
again: sizes and checksums in the manifest are made to fit, so that what lies behind these checks is reached too.
"""

import bz2
import gzip
import json
import random
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import zstandard

from tokenyard.manifest import MANIFEST_NAME
from tokenyard.storage import checksum

Files = dict[str, bytes]

NUMBERS = [0, 1, -1, 2, 7, 127, 128, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1,
           2**63, 2**64 - 1, 2**64, 2**70, 10**30, 10**400]  # fmt: skip
TEXTS = [
    *map(str, NUMBERS),
    "9" * 5000,
    "1e5",
    "1e999",
    "NaN",
    "-Infinity",
    "null",
    "true",
    "0x10",
    "1_0",
    "",
    "٣",
    "²",
]
MAGIC = [b"\x93NUMPY\x01\0", b"PAR1", b"PARE", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"BZh9", b"TYINDEX1\n", b"ustar\0",
         b"\xff\xfe", b"\xef\xbb\xbf", b"\0" * 8, b"\xff" * 8, b'"', b"\n", b",", b"{", b"[" * 3000, b"\xed\xa0\x80",
         b"\\ud800", b"|O8", b"pkl", b"../", b"\0"]  # fmt: skip
VALUES: list[Any] = [None, True, False, "", "x", "\0", "\ud800", "x" * 300, "../x", "/etc/passwd", "|O", "V0", "S0",
                     "<u2", ">i8", "<f8", "pkl", "ndarray:int32:1,1", "zstd:3", "br", [], {}, [[]], [1], {"a": 1},
                     float("nan"), 1e300, 0.5, *NUMBERS[:-1]]  # fmt: skip
_DIGITS = re.compile(rb"-?[0-9]+")
_JSON = ("manifest.json", "index.json")
_HEADER_FIELDS = [(0, 100), (100, 8), (124, 12), (156, 1), (257, 8), (345, 155)]

#: How compressed files are opened and closed again.
_PACKINGS: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    ".gz": (gzip.decompress, lambda data: gzip.compress(data, mtime=0)),
    ".bz2": (bz2.decompress, bz2.compress),
    ".zst": (lambda data: _unzstd(data), lambda data: zstandard.ZstdCompressor().compress(data)),
    ".zstd": (lambda data: _unzstd(data), lambda data: zstandard.ZstdCompressor().compress(data)),
    ".br": (
        lambda data: pa.CompressedInputStream(pa.BufferReader(data), "brotli").read(),
        lambda data: pa.Codec("brotli").compress(data, asbytes=True),
    ),
}


def mutate(files: Files, number: int, original: Files) -> tuple[Files, list[str]]:
    """Mutant ``number`` of a corpus, and what was done to it."""
    rng = random.Random(number)
    files = dict(files)
    done = []
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3])):
        if files:
            done.append(rng.choice(_ACTIONS)(files, rng))
    if MANIFEST_NAME in files and rng.random() < 0.7 and _seal(files, original):
        done.append("sealed again")
    return files, done


def _seal(files: Files, original: Files) -> bool:
    """Make the manifest's sizes and checksums those of the files that changed."""
    try:
        manifest = json.loads(files[MANIFEST_NAME])
        for shard in manifest["shards"]:
            for entry in [*shard["files"], shard["index"]]:
                if entry[0] in files and files[entry[0]] != original.get(entry[0]):
                    entry[1:] = [len(files[entry[0]]), checksum(files[entry[0]])]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        return False
    files[MANIFEST_NAME] = _manifest_text(manifest)
    return True


def _manifest_text(manifest: Any) -> bytes:
    """As it is written, its shards a line each; or, where they are none, in any way."""
    if not (isinstance(manifest, dict) and isinstance(manifest.get("shards"), list) and manifest["shards"]):
        return json.dumps(manifest).encode()
    head = ",\n".join(
        f"  {json.dumps(k)}: {json.dumps(v, sort_keys=True)}" for k, v in manifest.items() if k != "shards"
    )
    shards = ",\n".join("    " + json.dumps(s, sort_keys=True) for s in manifest["shards"])
    return f'{{\n{head},\n  "shards": [\n{shards}\n  ]\n}}\n'.encode()


def _unzstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()


# ---- one file's bytes ----


def edit_bytes(data: bytes, rng: random.Random) -> bytes:
    """Damage that knows nothing of the format."""
    buffer = bytearray(data)
    at = rng.randrange(len(buffer) + 1)
    end = min(len(buffer), at + rng.choice([1, 2, 4, 8, 64, 512]))
    match rng.randrange(9):
        case 0:
            for _ in range(rng.choice([1, 1, 2, 8]) if buffer else 0):
                buffer[rng.randrange(len(buffer))] ^= 1 << rng.randrange(8)
        case 1:
            for _ in range(rng.choice([1, 1, 2, 8]) if buffer else 0):
                buffer[rng.randrange(len(buffer))] = rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])
        case 2:
            del buffer[at:]
        case 3:
            del buffer[at:end]
        case 4:
            buffer[at:at] = rng.choice([rng.randbytes(rng.choice([1, 4, 100])), rng.choice(MAGIC)])
        case 5:
            buffer[at:at] = buffer[at:end] * rng.choice([1, 1, 50])
        case 6:
            other = rng.randrange(len(buffer) + 1)
            size = min(end - at, len(buffer) - other)
            buffer[at : at + size], buffer[other : other + size] = buffer[other : other + size], buffer[at : at + size]
        case 7:
            magic = rng.choice(MAGIC)
            buffer[at : at + len(magic)] = magic
        case 8:
            width, order = rng.choice("HIQ"), rng.choice("<>")
            number = rng.choice(NUMBERS[:-1]) % 256 ** struct.calcsize(width)
            packed = struct.pack(order + width, number)
            buffer[at : at + len(packed)] = packed
    return bytes(buffer)


def edit_number(data: bytes, rng: random.Random) -> bytes:
    """Another number where one is written in digits."""
    found = list(_DIGITS.finditer(data))
    if not found:
        return edit_bytes(data, rng)
    match = rng.choice(found)
    old = int(match[0]) if len(match[0]) < 100 else 0
    text = rng.choice([*TEXTS, str(old + 1), str(old - 1), str(old * 2)]).encode()
    if rng.random() < 0.5:  # in as many bytes
        text = text[: len(match[0])].rjust(len(match[0]), rng.choice([b" ", b"0"]))
    return data[: match.start()] + text + data[match.end() :]


def edit_json(data: bytes, rng: random.Random) -> bytes:
    """Another value, a key more or less, in JSON; told from the whole, or from one line of it."""
    lines = data.split(b"\n")
    whole = rng.random() < 0.7
    i = 0 if whole else rng.randrange(len(lines))
    try:
        value = json.loads(data if whole else lines[i])
    except (ValueError, RecursionError):
        return edit_number(data, rng)
    try:
        value = _edit_value(value, rng)
        text = _manifest_text(value) if whole and rng.random() < 0.7 else json.dumps(value).encode()
    except (ValueError, RecursionError):
        return edit_number(data, rng)
    if whole:
        return text
    return b"\n".join([*lines[:i], text.replace(b"\n", b" "), *lines[i + 1 :]])


def _edit_value(value: Any, rng: random.Random) -> Any:
    """Go down at random, and replace what is found there."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        match rng.randrange(12):
            case 0:
                del value[key]
            case 1:
                value[rng.choice(["", "x", "tokens", "\ud800", key + "2"])] = value[key]
            case 2:
                value[key] = value[rng.choice(list(value))]
            case _:
                value[key] = _edit_value(value[key], rng)
        return value
    if isinstance(value, list) and value and rng.random() < 0.9:
        i = rng.randrange(len(value))
        match rng.randrange(10):
            case 0:
                del value[i]
            case 1:
                value.insert(i, value[rng.randrange(len(value))])
            case 2:
                rng.shuffle(value)
            case _:
                value[i] = _edit_value(value[i], rng)
        return value
    if isinstance(value, str) and value and rng.random() < 0.5:
        return edit_number(value.encode("utf-8", "replace"), rng).decode("utf-8", "replace")
    if type(value) is int and rng.random() < 0.4:
        return value + rng.choice([-1, 1, 8, value])
    if rng.random() < 0.03:
        for _ in range(2000):
            value = [value]
        return value
    return rng.choice(VALUES)


def edit_index(data: bytes, rng: random.Random) -> bytes:
    """A row index whose head says something else, or whose numbers are others."""
    magic, line, body = (*data.split(b"\n", 2), b"", b"")[:3]
    if rng.random() < 0.4 and len(body) >= 8:
        at = 8 * rng.randrange(len(body) // 8)
        old = struct.unpack_from("<q", body, at)[0]
        number = rng.choice([old + 1, old - 1, old + 8, -old, *NUMBERS[:-1]]) % 2**64
        return magic + b"\n" + line + b"\n" + body[:at] + struct.pack("<Q", number) + body[at + 8 :]
    try:
        head = _edit_value(json.loads(line), rng)
        return magic + b"\n" + json.dumps(head).encode() + b"\n" + body
    except (ValueError, RecursionError):
        return edit_bytes(data, rng)


def edit_tar(data: bytes, rng: random.Random) -> bytes:
    """A field of one header, whose checksum is made right again."""
    heads = [i for i in range(0, len(data) - 511, 512) if data[i + 257 : i + 262] == b"ustar"]
    if not heads:
        return edit_bytes(data, rng)
    at = rng.choice(heads)
    header = bytearray(data[at : at + 512])
    start, size = rng.choice(_HEADER_FIELDS)
    text = rng.choice(
        [b"", b"../../x.tokens.npy", b"/etc/x.tokens.npy", b"a.2.npy", b"x", b"-1", b"77777777777", b"0000000000",
         b"\x80" + rng.randbytes(11), b"\x80\0\0\0" + b"\xff" * 8, b"\xff" * 12, rng.randbytes(size),
         *[bytes([c]) for c in b"0123456xgLKSMV"]]
    )[:size]  # fmt: skip
    header[start : start + size] = text.ljust(size, b"\0")
    return data[:at] + _with_checksum(header) + data[at + 512 :]


def with_checksums(data: bytes) -> bytes:
    """A tar whose headers all have the right checksum."""
    blocks = [data[i : i + 512] for i in range(0, len(data), 512)]
    return b"".join(_with_checksum(bytearray(b)) if b[257:262] == b"ustar" and len(b) == 512 else b for b in blocks)


def _with_checksum(header: bytearray) -> bytes:
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def edit_packed(name: str, data: bytes, rng: random.Random) -> bytes:
    """What a compressed file holds; its packing stays whole."""
    unpack, pack = _PACKINGS[Path(name).suffix]
    try:
        inner = unpack(data)
    except (OSError, EOFError, ValueError, zlib.error, zstandard.ZstdError):
        return edit_bytes(data, rng)
    return pack(edit_file(name.removesuffix(Path(name).suffix), inner, rng))


def edit_file(name: str, data: bytes, rng: random.Random) -> bytes:
    """One file, in a way that its kind is open to."""
    edits = [edit_bytes, edit_bytes, edit_number]
    if name.endswith((".json", ".jsonl")):
        edits += [edit_json] * 6
    if name.endswith(".idx"):
        edits += [edit_index] * 6
    if name.endswith(".tar"):
        edits += [edit_tar] * 3
    if Path(name).suffix in _PACKINGS and rng.random() < 0.5:
        return edit_packed(name, data, rng)
    return rng.choice(edits)(data, rng)


# ---- files ----


def _one_file(files: Files, rng: random.Random) -> str:
    name = rng.choice(list(files))
    files[name] = edit_file(name, files[name], rng)
    return f"edited {name}"


def _manifest(files: Files, rng: random.Random) -> str:
    name = rng.choice([n for n in files if n.endswith((*_JSON, ".idx"))] or list(files))
    files[name] = edit_file(name, files[name], rng)
    return f"edited {name}"


def _drop(files: Files, rng: random.Random) -> str:
    name = rng.choice(list(files))
    del files[name]
    return f"dropped {name}"


def _rename(files: Files, rng: random.Random) -> str:
    name = rng.choice(list(files))
    new = rng.choice([name + "x", "0" + name, f"sub/{name}", name.replace("0", "1"), "x.npy", "index.json", "a.json"])
    files[new] = files.pop(name)
    return f"renamed {name} to {new}"


def _swap(files: Files, rng: random.Random) -> str:
    a, b = rng.choice(list(files)), rng.choice(list(files))
    files[a], files[b] = files[b], files[a]
    return f"swapped {a} and {b}"


def _splice(files: Files, rng: random.Random) -> str:
    a, b = rng.choice(list(files)), rng.choice(list(files))
    cut, other = rng.randrange(len(files[a]) + 1), rng.randrange(len(files[b]) + 1)
    files[a] = files[a][:cut] + files[b][other:]
    return f"spliced {a} at {cut} with {b} from {other}"


def _lead_outside(files: Files, rng: random.Random) -> str:
    """A name inside a file becomes one that leads elsewhere."""
    inner = [n.rpartition("/")[2].encode() for n in files]
    texts = [n for n in files if any(i in files[n] for i in inner)] or list(files)
    name, target = rng.choice(texts), rng.choice([b"../x", b"/etc/passwd", b"..", b".", b"", b"a" * 300, b"a/" * 3000])
    files[name] = files[name].replace(rng.choice(inner), target)
    return f"put the name {target[:20]!r} into {name}"


_ACTIONS: list[Callable[[Files, random.Random], str]] = [
    *[_one_file] * 6,
    *[_manifest] * 3,
    _drop,
    _rename,
    _swap,
    _splice,
    _lead_outside,
]

"""Hostile strings on which an engine has to agree with the truth before it encodes anything.

Made by code out of fixed numbers and the tokenizer's own tokens, the same on every machine.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tokenyard.converters.engines.base import Engine
from tokenyard.converters.engines.spec import TokenizerSpec

_MAX_TOKENS = 120
_CHUNK = 64

# (first, past the last, step): dense where scripts, marks and symbols are, thin in ideographs and private use.
_RANGES = (
    (0x0000, 0x3400, 1),
    (0x3400, 0xA000, 61),
    (0xA000, 0xAC00, 1),
    (0xAC00, 0xD7B0, 97),
    (0xD7B0, 0xD800, 1),
    (0xE000, 0xF900, 509),
    (0xF900, 0x10000, 1),
    (0x10000, 0x12600, 1),
    (0x12600, 0x16800, 61),
    (0x16800, 0x17000, 1),
    (0x17000, 0x1AFF0, 97),
    (0x1AFF0, 0x1B000, 1),
    (0x1B000, 0x1BC00, 61),
    (0x1BC00, 0x1BD00, 1),
    (0x1BD00, 0x1CC00, 97),
    (0x1CC00, 0x1D800, 1),
    (0x1D800, 0x1DF00, 7),
    (0x1DF00, 0x1FC00, 1),
    (0x1FC00, 0x20000, 97),
    (0x20000, 0x40000, 4099),
    (0xE0000, 0xE0200, 1),
    (0xF0000, 0x110000, 8191),
)
_TEXTS = (
    "",
    " ",
    "\n",
    "a",
    "The quick brown fox jumps over the lazy dog. It's 12:30; they'll, we've, I'd, DON'T, O'Neil's!",
    "def f(x: int) -> str:\n\tif x != 0:\n        return f'{x!r}'  # TODO\n\n\n    return \"\\n\"\n",
    "#include <stdio.h>\r\nint main(void)\r\n{\r\n\treturn a[i]->b++ && !c; /* ** */\r\n}\r\n",
    '{"key": [1, 2.5e-10, null], "nested": {"a\\u00e9": "\\\\"}}',
    "<html><body class='x'>&amp;&#39;</body></html> <!-- --> </s> <s> <unk> <|endoftext|> [CLS] [SEP] [MASK]",
    "https://example.org/a/b?c=d&e=%20#f user@example.com /usr/lib/x86_64-linux-gnu C:\\dir\\file.txt",
    "春眠不觉晓,处处闻啼鸟。夜来风雨声,花落知多少?《静夜思》——李白(701年-762年)",
    "日本語のテキスト、カタカナ、ﾊﾝｶｸ、漢字かな交じり文。 한국어 문장입니다. ᄀᆨᇂ",
    "Привет, мир! Γειά σου Κόσμε. שלום עולם مرحبا بالعالم नमस्ते दुनिया สวัสดีชาวโลก",
    "\u202eright to left\u202c \u2066isolate\u2069 \u200e\u200f \u061c",
    "👩‍👩‍👧‍👦 👍🏽 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🇩🇪🇫🇷 ❤️ ☺︎ 1️⃣ 🧑🏿‍🚀",
    "e\u0301 e\u0301\u0302\u0303 \u0301 a\u0323\u0307 a\u0307\u0323 \u1e69 ﬁ ﬀ ① ½ Å Ω ſ İ ı ß ẞ Ǆ",
    "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!͖̬̰̙̗̿̋ͥͥ̂ͣ̐́́͜͞",
    "\x00\x01\x07\x08\x0b\x0c\x1b[0m\x7f\x80\x85\x9f\xa0\xad\u200b\u200c\u200d\u2060\ufeff\ufffc\ufffd",
    "\ufeffBOM in front, \ufeff and inside\ufeff",
    "\ufdd0\ufdef\ufffe\uffff\U0001fffe\U0001ffff\U0010fffe\U0010ffff \ue000\uf8ff\U000f0000\U0010fffd",
    "a\u00a0b\u1680c\u2000d\u2003e\u2028f\u2029g\u202fh\u205fi\u3000j\u180ek",
    "\r\r\n\n\r \r\n\t\n \n\n  \n \t \t\tx\n \ny \n  z\n\n\n",
    "x ▁ ▁▁x Ġ ĠĠ Ċ ## ##ing @@ </w> <0x0A> <0xFF>",
    "1 12 123 1234 12345 1,234,567.89 ٠١٢٣ ०१२ ⅷ ² ¾ 1e10 0x1F",
    "!!!???...---===___***###$$$%%%&&&((()))[[[]]]{{{}}}<<<>>>|||///\\\\\\~~~```'''\"\"\"",
)
_RUNS = (
    " ",
    "\n",
    "\r\n",
    "\t",
    "a",
    "A",
    "aB",
    "0",
    "12",
    ".",
    "-",
    "=",
    "é",
    "中",
    "の",
    "\u0301",
    "👍",
    "\u200d",
    "▁",
)
_RUN_LENGTHS = (2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 100, 257, 1031)


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """The first text on which an engine gives other ids than the truth, made short."""

    engine: str
    text: str
    expected: tuple[int, ...]
    found: tuple[int, ...]

    def __str__(self) -> str:
        return (
            f"{self.engine} encodes {_short(repr(self.text))} to {_short(list(self.found))}, "
            f"transformers to {_short(list(self.expected))}"
        )


def canary(spec: TokenizerSpec) -> list[str]:
    """Return all hostile strings for a tokenizer: some 400,000 characters."""
    return [*short_canary(spec), *_code_points()]


def short_canary(spec: TokenizerSpec) -> list[str]:
    """Return the strings without the walk through Unicode: some 100,000 characters."""
    return [*_TEXTS, *_runs(), *_special(spec)]


def agree(engine: Engine, truth: Engine, texts: Sequence[str]) -> Disagreement | None:
    """Return the first text on which the ids differ, cut down as far as they still do; None when all are equal."""
    texts = list(texts)
    pairs = zip(texts, truth.encode_batch(texts).split(), engine.encode_batch(texts).split(), strict=True)
    for text, expected, found in pairs:
        if not np.array_equal(expected, found):
            return _shrink(engine, truth, text)
    return None


def _runs() -> Iterator[str]:
    for run in _RUNS:
        for length in _RUN_LENGTHS:
            yield run * length
        yield f"x{run * 6}y {run * 6} z{run * 3}\n{run * 3}9"


def _special(spec: TokenizerSpec) -> Iterator[str]:
    """Yield texts with the tokenizer's own added tokens inside: whole, cut, doubled, next to all kinds of things."""
    tokens = spec.added_tokens
    if len(tokens) > _MAX_TOKENS:
        ends = {token for token in (spec.tokenizer.bos_token, spec.tokenizer.eos_token) if token}
        tokens = (*sorted(ends), *tokens[:: len(tokens) // _MAX_TOKENS])
    for token in tokens:
        yield f"{token}x {token} y{token}\n{token}{token}1  {token}  \n\n {token}.{token}中{token}"
        yield f"{token[:-1]} {token[1:]} {token.upper()} {token.lower()}{token[:1]}{token}"
        yield token


def _code_points() -> Iterator[str]:
    """Yield texts that put code points of every plane next to letters, digits, spaces and themselves."""
    points = [chr(point) for first, stop, step in _RANGES for point in range(first, stop, step)]
    for start in range(0, len(points), _CHUNK):
        yield "".join(f" {char}{char}a{char}1" for char in points[start : start + _CHUNK])


def _shrink(engine: Engine, truth: Engine, text: str) -> Disagreement:
    """Cut pieces off while the rest still disagrees."""

    def differs(candidate: str) -> Disagreement | None:
        (expected,) = truth.encode_batch([candidate]).split()
        (found,) = engine.encode_batch([candidate]).split()
        if np.array_equal(expected, found):
            return None
        return Disagreement(
            engine=engine.name, text=candidate, expected=tuple(expected.tolist()), found=tuple(found.tolist())
        )

    shortest = differs(text)
    if shortest is None:
        raise AssertionError(f"ids of {_short(repr(text))} depend on the batch that it is in")
    size = len(text) // 2
    while size:
        cut = shortest.text
        candidates = (cut[size:], cut[:-size]) if len(cut) > size else ()
        smaller = next(filter(None, map(differs, candidates)), None)
        if smaller is None:
            size //= 2
        else:
            shortest = smaller
    return shortest


def _short(shown: object) -> str:
    text = str(shown)
    return text if len(text) <= 200 else f"{text[:100]} ... {text[-80:]}"

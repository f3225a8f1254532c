r"""Reading a regex, in the part of Oniguruma's syntax that tokenizers use.

Anchors at a beginning, lookbehinds, backreferences, \b, \R, \X and the like are refused with a ValueError: whoever asks
then has no proof, and does without.
"""

from dataclasses import dataclass

from tokenyard.converters.engines import charclass
from tokenyard.converters.engines.charclass import CharTest

_ESCAPED_CLASSES: dict[str, CharTest] = {
    "s": charclass.is_space,
    "d": charclass.is_digit,
    "w": charclass.is_word,
    "h": charclass.one_of("0123456789abcdefABCDEF"),
}
_ESCAPED_CHARS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "a": "\a", "e": "\x1b", "0": "\0"}


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """Consumes one character that `test` matches."""

    test: CharTest


@dataclass(frozen=True, kw_only=True)
class Sequence:
    """One part behind the other."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, kw_only=True)
class Alternatives:
    """One of the parts."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, kw_only=True)
class Repeat:
    """`body`, from `least` to `most` times (None: without end). greedy: never gives back what it took."""

    body: "Node"
    least: int
    most: int | None
    greedy: bool = False


@dataclass(frozen=True, kw_only=True)
class Look:
    """A lookahead, positive or negative. An end of the text or line is one for nothing but itself."""

    body: "Node"


Node = Leaf | Sequence | Alternatives | Repeat | Look


def parse_pattern(regex: str) -> Node:
    """Read a pattern; ValueError for syntax outside of what is modelled."""
    parser = _Parser(regex)
    node = parser.alternatives(any_case=False)
    if parser.more():
        raise parser.refused("')'")
    return node


class _Parser:
    def __init__(self, regex: str) -> None:
        self._regex = regex
        self._at = 0

    def more(self) -> bool:
        return self._at < len(self._regex)

    def refused(self, what: str) -> ValueError:
        return ValueError(f"{what} at character {self._at} of the pattern {self._regex!r} is not modelled")

    def _peek(self) -> str:
        return self._regex[self._at : self._at + 1]

    def _next(self) -> str:
        if not self.more():
            raise self.refused("the end")
        self._at += 1
        return self._regex[self._at - 1]

    def _take(self, text: str) -> bool:
        found = self._regex.startswith(text, self._at)
        self._at += len(text) * found
        return found

    def _until(self, end: str) -> str:
        stop = self._regex.find(end, self._at)
        if stop < 0:
            raise self.refused(f"a missing {end!r}")
        found, self._at = self._regex[self._at : stop], stop + len(end)
        return found

    def alternatives(self, *, any_case: bool) -> Node:
        parts = [self._sequence(any_case)]
        while self._take("|"):
            parts.append(self._sequence(any_case))
        return parts[0] if len(parts) == 1 else Alternatives(parts=tuple(parts))

    def _sequence(self, any_case: bool) -> Node:
        parts: list[Node] = []
        while self.more() and self._peek() not in "|)":
            if self._take("(?i)"):
                any_case = True
            else:
                parts.append(self._repeats(self._atom(any_case)))
        return Sequence(parts=tuple(parts))

    def _repeats(self, body: Node) -> Node:
        while bounds := self._bounds():
            least, most, interval = bounds
            lazy = self._take("?")
            # behind an interval + repeats it all (Ruby) or keeps it (elsewhere): modelled as both
            kept = not lazy and self._take("+")
            if isinstance(body, Look):
                raise self.refused("a repeated lookahead or end")
            body = Repeat(body=body, least=least, most=None if kept and interval else most, greedy=kept)
        return body

    def _bounds(self) -> tuple[int, int | None, bool] | None:
        for sign, least, most in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self._take(sign):
                return least, most, False
        if self._peek() != "{":
            return None
        self._at += 1
        first, comma, last = self._until("}").partition(",")
        if not (first + last).isdigit():
            raise self.refused("an interval")
        least = int(first or 0)
        return least, (int(last) if last else None) if comma else least, True

    def _atom(self, any_case: bool) -> Node:
        char = self._next()
        if char == "(":
            return self._group(any_case)
        if char == "$" or (char == "\\" and self._peek() in ("z", "Z")):
            self._at += char == "\\"
            return Look(body=Leaf(test=charclass.anything))
        if char == "[":
            test = self._class()
        elif char == "\\":
            test = self._escape()
        elif char == ".":
            test = charclass.anything_but("\n")
        elif char in "^*+?{":
            raise self.refused(repr(char))
        else:
            test = charclass.one_of(char)
        return Leaf(test=charclass.any_case(test) if any_case else test)

    def _group(self, any_case: bool) -> Node:
        look = atomic = False
        if self._take("?=") or self._take("?!"):
            look = True
        elif self._take("?>"):
            atomic = True
        elif self._take("?i:"):
            any_case = True
        elif not self._take("?:") and self._peek() == "?":
            raise self.refused("a group of this kind")
        body = self.alternatives(any_case=any_case)
        if not self._take(")"):
            raise self.refused("a missing ')'")
        if look:
            return Look(body=body)
        return Repeat(body=body, least=1, most=1, greedy=True) if atomic else body

    def _escape(self) -> CharTest:
        char = self._next()
        if char in "pP":
            if not self._take("{"):
                raise self.refused("a property without braces")
            name = self._until("}")
            test = charclass.property_named(name.removeprefix("^"))
            return charclass.negate(test) if (char == "P") != name.startswith("^") else test
        if char.lower() in _ESCAPED_CLASSES:
            test = _ESCAPED_CLASSES[char.lower()]
            return charclass.negate(test) if char.isupper() else test
        return charclass.one_of(self._escaped_char(char))

    def _escaped_char(self, char: str) -> str:
        if char in _ESCAPED_CHARS:
            return _ESCAPED_CHARS[char]
        if char == "x":
            return self._code(self._until("}") if self._take("{") else self._digits(2))
        if char == "u":
            return self._code(self._digits(4))
        if char.isascii() and char.isalnum():
            raise self.refused(f"\\{char}")
        return char

    def _digits(self, count: int) -> str:
        self._at += count
        return self._regex[self._at - count : self._at]

    def _code(self, digits: str) -> str:
        try:
            return chr(int(digits, 16))
        except (ValueError, OverflowError) as error:
            raise self.refused(f"the code point {digits!r}") from error

    def _class(self) -> CharTest:
        """Read a class behind its [, with ranges, nested classes and && between parts."""
        negated = self._take("^")
        parts: list[list[CharTest]] = [[]]
        first = True
        while first or self._peek() != "]":
            first = False
            if self._take("&&"):
                parts.append([])
            elif self._take("[:"):
                self._until(":]")
                parts[-1].append(charclass.unknown)
            elif self._take("["):
                parts[-1].append(self._class())
            else:
                parts[-1].append(self._class_item())
        self._at += 1
        whole = charclass.all_of([charclass.any_of(tests) for tests in parts])
        return charclass.negate(whole) if negated else whole

    def _class_item(self) -> CharTest:
        char = self._next()
        if char == "\\":
            if self._peek().lower() in {*_ESCAPED_CLASSES, "p"}:
                return self._escape()
            char = self._escaped_char(self._next())
        if self._peek() != "-" or self._regex[self._at + 1 : self._at + 2] in ("]", ""):
            return charclass.one_of(char)
        self._at += 1
        last = self._next()
        if last == "\\":
            last = self._escaped_char(self._next())
        elif last == "[":
            raise self.refused("a range up to a class")
        return charclass.between(char, last)

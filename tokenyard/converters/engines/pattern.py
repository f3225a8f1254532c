r"""Which characters a regex can match next to each other, and which it always matches.

A pattern is read into its *leaves* (the places that consume one character) and the relation *follow* between them
(Glushkov's construction). If no leaf that matches x is followed by one that matches y, no match holds x and y next to
each other; and more, a search reaching the point between them does the same as at the end of the text. Lookaheads
count as leaves that may follow. What the relation says is never too little: possessive, lazy and atomic forms only
allow less. `cuts.py` builds on it.
"""

from dataclasses import dataclass, field

from tokenyard.converters.engines.charclass import CharTest
from tokenyard.converters.engines.pattern_syntax import (
    Alternatives,
    Leaf,
    Look,
    Node,
    Repeat,
    Sequence,
    parse_pattern,
)

Solo = frozenset[tuple[int, frozenset[int]]]


@dataclass(frozen=True, kw_only=True)
class _Part:
    """What is known of a part of a pattern.

    first, last: the leaves that a match of it can begin and end with.
    nullable: it can match nothing. free: and does so whatever stands there (no lookahead inside).
    greedy: it gives back nothing that it took (possessive or atomic).
    solo: the leaves that alone can be a whole match, each with the leaves of greedy parts in front, which would
        take the character away if they match it.
    """

    first: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()
    nullable: bool = True
    free: bool = True
    greedy: bool = False
    solo: Solo = frozenset()


@dataclass
class _Builder:
    tests: list[CharTest] = field(default_factory=list)
    follow: set[tuple[int, int]] = field(default_factory=set)

    def part(self, node: Node) -> _Part:
        match node:
            case Leaf(test=test):
                self.tests.append(test)
                here = frozenset([len(self.tests) - 1])
                solo = frozenset([(len(self.tests) - 1, frozenset[int]())])
                return _Part(first=here, last=here, nullable=False, free=False, solo=solo)
            case Sequence(parts=nodes):
                whole = _Part()
                for each in nodes:
                    whole = self._concatenate(whole, self.part(each))
                return whole
            case Alternatives(parts=nodes):
                return _unite([self.part(each) for each in nodes])
            case Repeat():
                return self._repeat(node)
            case Look(body=body):
                return _Part(first=self.part(body).first, free=False)
        raise AssertionError(f"no such node: {node!r}")

    def _concatenate(self, a: _Part, b: _Part) -> _Part:
        self.follow |= {(p, q) for p in a.last for q in b.first}
        solo: set[tuple[int, frozenset[int]]] = set()
        if b.nullable and b.free:
            solo |= a.solo
        if a.nullable and a.free:
            taken = a.first if a.greedy else frozenset[int]()
            solo |= {(leaf, blockers | taken) for leaf, blockers in b.solo}
        return _Part(
            first=a.first | b.first if a.nullable else a.first,
            last=a.last | b.last if b.nullable else b.last,
            nullable=a.nullable and b.nullable,
            free=a.nullable and b.nullable and a.free and b.free,
            greedy=a.greedy or b.greedy,
            solo=frozenset(solo),
        )

    def _repeat(self, node: Repeat) -> _Part:
        body = self.part(node.body)
        if node.most is None or node.most > 1:
            self.follow |= {(p, q) for p in body.last for q in body.first}
        nullable = node.least == 0 or body.nullable
        return _Part(
            first=body.first,
            last=body.last,
            nullable=nullable,
            free=nullable and (node.least == 0 or body.free),
            greedy=node.greedy or body.greedy,
            solo=body.solo if node.least <= 1 and not (node.greedy and node.least == node.most == 1) else frozenset(),
        )


def _unite(parts: list[_Part]) -> _Part:
    return _Part(
        first=frozenset().union(*(part.first for part in parts)),
        last=frozenset().union(*(part.last for part in parts)),
        nullable=any(part.nullable for part in parts),
        free=any(part.nullable and part.free for part in parts),
        greedy=any(part.greedy for part in parts),
        solo=frozenset().union(*(part.solo for part in parts)),
    )


class Adjacency:
    """What a pattern can match next to each other. ValueError for syntax whose meaning is not modelled."""

    def __init__(self, regex: str) -> None:
        builder = _Builder()
        self._whole = builder.part(parse_pattern(regex))
        if self._whole.nullable:
            raise ValueError(f"the pattern {regex!r} can match nothing at all")
        self._tests = builder.tests
        self._follow = builder.follow

    def may_join(self, x: str, y: str) -> bool:
        """Say whether a search that has consumed x may do anything about a y behind it."""
        ends = [self._may(leaf, x) for leaf in range(len(self._tests))]
        begins = [self._may(leaf, y) for leaf in range(len(self._tests))]
        return any(ends[p] and begins[q] for p, q in self._follow)

    def may_match(self, char: str) -> bool:
        """Say whether a match may hold this character at all."""
        return any(self._may(leaf, char) for leaf in range(len(self._tests)))

    def always_matches(self, char: str) -> bool:
        """Say whether a search that begins at this character always matches, whatever comes behind it."""
        return any(
            self._tests[leaf](char) is True and not any(self._may(blocker, char) for blocker in blockers)
            for leaf, blockers in self._whole.solo
        )

    def is_one_character(self) -> bool:
        """Say whether each match is a single character, whatever stands next to it."""
        return not self._follow

    def _may(self, leaf: int, char: str) -> bool:
        return self._tests[leaf](char) is not False

import pytest

from tests.converters.engines.patterns import LLAMA3, POSSESSIVE
from tokenyard.converters.engines.pattern import Adjacency
from tokenyard.converters.engines.stages import BYTE_LEVEL


@pytest.mark.parametrize(
    ("regex", "apart", "joined"),
    [
        (BYTE_LEVEL, ["e ", "e\n", "e.", ".e", "1a", "a1", ". "], ["ee", "éa", " e", "11", "'s", "ll", " \n"]),
        (LLAMA3, ["e ", "e\n", "e.", "a1", ". "], [".e", ".\n", "\n\n", " \n", "'S", "12", "\te"]),
        (POSSESSIVE, ["e ", "e\n", "a1", ". "], [".e", ".\n", "\n\n", "  ", "'L"]),
        ("[一-龥]+", ["一a", "a一", "一，"], ["一二"]),
        (r"a(?=bc)|.", ["aa", "cc"], ["ab", "bc"]),
        (r"(?:ab)+c?", ["cb", "ca", "aa"], ["ab", "ba", "bc"]),
        (r"a{2}b", ["bb"], ["aa", "ab"]),
        (r"a{0,1}b", ["aa"], ["ab"]),
        (r"[a-c&&[^b]]+", ["ab", "bb"], ["ac", "aa"]),
        (r"[\p{Han}]+", ["一a"], ["一二", "一\u3400"]),
        (r"\x41\x{42}\u0043", ["CA", "AC"], ["AB", "BC"]),
    ],
)  # fmt: skip
def test_what_a_match_can_hold_side_by_side(regex, apart, joined):
    adjacency = Adjacency(regex)
    assert [pair for pair in apart if adjacency.may_join(*pair)] == []
    assert [pair for pair in joined if not adjacency.may_join(*pair)] == []


def test_a_lookahead_sees_what_stands_behind_the_point():
    # "\n" before a letter: \s+(?!\S) gives the last white space up when a letter follows, and keeps it at the end
    assert Adjacency(r"\s+(?!\S)|\s+").may_join("\n", "a")
    assert not Adjacency(r"\s+").may_join("\n", "a")
    assert Adjacency(r"\s+$|\s").may_join("\n", "a")


@pytest.mark.parametrize(
    ("regex", "always", "perhaps"),
    [
        (BYTE_LEVEL, "e1. \n中", "\u1c89"),
        (LLAMA3, "e1. \n", ""),
        (POSSESSIVE, "e1.\n ", ""),
        (r"\p{N}{1,3}", "1", "a"),
        (r"a(?!b)", "", "a"),
        (r"x?a|(?>bc|b)", "a", "b"),
        (r"x?+[xa]", "a", "x"),
        (r"(?:b|cd)*e", "e", "bc"),
        (r"(?i:k)", "", "kK\u212a"),
        (r"ab", "", "ab"),
        (r"a{2,}", "", "a"),
    ],
)
def test_which_characters_always_begin_a_match(regex, always, perhaps):
    adjacency = Adjacency(regex)
    assert [char for char in always if not adjacency.always_matches(char)] == []
    assert [char for char in perhaps if adjacency.always_matches(char)] == []


@pytest.mark.parametrize(
    ("regex", "message"),
    [
        (r"(?<=a)b", "a group of this kind at character 1"),
        (r"(?<!a)b", "a group of this kind"),
        (r"^a", r"'\^' at character 1"),
        (r"a\b", r"\\b at character 3"),
        (r"(a)\1", r"\\1 at character 5"),
        (r"a\R", r"\\R"),
        (r"(?=a)*b", "a repeated lookahead"),
        (r"a*", "can match nothing at all"),
        (r"(?!a)", "can match nothing at all"),
        (r"[a", "the end"),
        (r"(a", r"a missing '\)'"),
        (r"a)", r"'\)'"),
        (r"a{x}", "an interval"),
        (r"\p{L", "a missing '}'"),
        (r"\xzz", "the code point 'zz'"),
    ],
)
def test_what_is_not_modelled_is_refused(regex, message):
    with pytest.raises(ValueError, match=message):
        Adjacency(regex)

"""Scope patterns: what their canonical form is, which are refused, and when two of them overlap."""

from __future__ import annotations

import re
import sys
import unicodedata
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinate import paths
from coordinate.errors import InvalidInput
from coordinate.paths import canonical, literal_prefix, matches, overlaps

REPOSITORY = "/abs/repo"
COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"

# --- the table ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("src/foo", "src/foobar", False),
        ("src/foo", "src/foo/", True),
        ("./src/foo", "src/foo", True),
        ("src//foo", "src/foo", True),
        ("src/a/../foo", "src/foo", True),
        (".", "src", True),
        ("/abs/repo", "src", True),
        ("src", "src/foo/x.py", True),
        ("src\\foo", "src/foo", True),
        ("SRC/foo", "src/foo", False),
        (COMPOSED, DECOMPOSED, True),
        ("src/**", "src/app.py", True),
        ("src/**", "src", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/sub/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/a/b/c.py", True),
        ("src/**/test", "src/*.py", True),  # a directory may be called a.py
        ("?/a", "b/a", True),
        ("?/a", "bb/a", False),
        ("src/[ab].py", "src/c.py", False),
        ("src/[ab].py", "src/b.py", True),
        ("src/[a-c].py", "src/[c-e].py", True),
        ("src/[!a-c].py", "src/[a-c].py", False),
        ("src/[^a-c].py", "src/d.py", True),
        ("/abs/repo/src", "src", True),
        ("100%", "1000", False),
        ("a_b", "axb", False),
        ("src/*", "tests/*", False),
        ("*.py", "*.md", False),
        ("a*", "*b", True),
        ("**", "any/thing", True),
    ],
)
def test_the_overlap_table_holds_both_ways_round(a: str, b: str, expected: bool) -> None:
    """QL-11, the pairs that are accepted."""
    one, other = canonical(a, root=REPOSITORY), canonical(b, root=REPOSITORY)
    assert overlaps(one, other) is expected
    assert overlaps(other, one) is expected


def test_letter_case_counts_unless_it_is_folded() -> None:
    """QL-11, `SRC/foo` and `src/foo`."""
    assert canonical("SRC/Foo") == "SRC/Foo"
    assert canonical("SRC/Foo", fold_case=True) == canonical("src/foo", fold_case=True) == "src/foo"
    assert canonical("/ABS/Repo/src", root=REPOSITORY, fold_case=True) == "src"
    assert canonical("STRASSE/ß?", fold_case=True) == "strasse/ß?"
    assert canonical("İ?", fold_case=True) == "i?"


def test_a_symbolic_link_is_covered_once_the_caller_resolved_it(tmp_path: Path) -> None:
    """QL-11, the symlinked directory: the text alone says nothing, the resolved path does."""
    (tmp_path / "src").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "src")
    assert not overlaps(canonical("link/a.py"), canonical("src"))
    target = (tmp_path / "link" / "a.py").resolve()
    assert overlaps(canonical(str(target), root=str(tmp_path.resolve())), canonical("src"))


# --- the canonical form ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "root", "expected"),
    [
        ("a/./b//c/", None, "a/b/c"),
        ("a\\b\\..\\c", None, "a/c"),
        ("./", None, "."),
        ("src/..", None, "."),
        ("**/*.py", None, "**/*.py"),
        (DECOMPOSED, None, COMPOSED),
        ("/", "/", "."),
        ("/src", "/", "src"),
        ("/abs/repo/./src/../lib", "/abs/repo/", "lib"),
        ("c:\\work\\repo\\src", "C:\\work\\repo", "src"),
        (f"/abs/{DECOMPOSED}/src", f"/abs/{COMPOSED}", "src"),
        ("/abs/[x]/src", "/abs/[x]", "src"),
        ("a b/%_x ", None, "a b/%_x "),
        ("[{]a,b}", None, "[{]a,b}"),
        ("{{name}}/x", None, "{{name}}/x"),
        ("x" * 1000, None, "x" * 1000),
    ],
)
def test_a_pattern_has_one_canonical_form(pattern: str, root: str | None, expected: str) -> None:
    assert canonical(pattern, root=root) == expected


@pytest.mark.parametrize(
    ("pattern", "root"),
    [
        ("", None),
        (" \t", None),
        ("../x", None),
        ("a/../../x", None),
        ("../repo/x", REPOSITORY),
        ("/abs/repo/src", None),
        ("/abs/repo/src", "."),
        ("/abs/repository", REPOSITORY),
        ("/abs", REPOSITORY),
        ("/abs/repo/../other", REPOSITORY),
        ("/*/repo/src", REPOSITORY),
        ("C:/repo/src", None),
        ("./C:/repo", None),
        ("a\0b", None),
        ("a\nb", None),
        ("a\x7fb", None),
        ("a\ud800b", None),
        ("x" * 1001, None),
        ("\u0958" * 600, None),  # its NFC form has twice the length
        ("*/../x", None),
        ("src/[ab]/../x", None),
        ("**/a/../../x", None),
        ("src/*.{ts,tsx}", None),
        ("{src/a,tests/b}", None),
        ("v{1..3}", None),
    ],
)
def test_what_cannot_be_meant_safely_is_refused_in_whole_sentences(pattern: str, root: str | None) -> None:
    """QL-11, what is refused: a way out of the root, an unknown root, and nothing at all."""
    with pytest.raises(InvalidInput) as refused:
        canonical(pattern, root=root)
    error = refused.value
    assert error.facts == {"field": "scopes"}
    assert error.message.endswith(".")
    assert error.hint.endswith(".")
    assert error.message.isprintable()


@given(st.text(st.sampled_from("aA*?[]!-{,}/\\.:é\u0301İßΣ"), max_size=12), st.booleans())
@settings(deadline=None)
def test_the_canonical_form_of_a_canonical_form_is_itself(pattern: str, fold_case: bool) -> None:
    try:
        once = canonical(pattern, fold_case=fold_case)
    except InvalidInput:
        return
    assert canonical(once, fold_case=fold_case) == once
    assert once == unicodedata.normalize("NFC", once)
    assert overlaps(once, once)


# --- doubt means conflict -------------------------------------------------------------------------------------------


def test_a_name_in_brackets_is_a_class_and_itself() -> None:
    assert matches("app/[slug]/page.tsx", "app/[slug]/page.tsx")
    assert matches("app/[slug]/page.tsx", "app/g/page.tsx")
    assert not matches("app/[slug]/page.tsx", "app/x/page.tsx")
    assert not overlaps("app/[slug]", "app/[id]")


@pytest.mark.parametrize("malformed", ["a[b", "a[", "[]", "[!]", "[^]", "a]"])
def test_a_class_that_is_not_closed_is_plain_text(malformed: str) -> None:
    assert matches(malformed, malformed)
    assert not overlaps(malformed, "ab")
    assert not overlaps(malformed, "b")


def test_a_bracket_that_comes_first_belongs_to_its_class() -> None:
    assert matches("[]a]", "]")
    assert not matches("[!]a]", "]")
    assert matches("[!]a]", "b")
    assert matches("[a-]", "-")
    assert not matches("[!]", "!")


def test_members_that_a_negated_class_names_twice_stay_out() -> None:
    assert not matches("[!a-cb]", "c")
    assert matches("[!a-cb]", "d")


@pytest.mark.parametrize("doubtful", ["[[:alpha:]]", "[z-a]", "[0-Z]", "[A-z]", "[а-я]", "[[.a.]]", "[a[=e=]]"])
def test_a_class_that_tools_read_differently_stands_for_any_name(doubtful: str) -> None:
    assert overlaps(f"src/x{doubtful}", "src/anything")
    assert not overlaps(f"src/x{doubtful}", "lib/anything")
    assert canonical(f"src/x{doubtful}", fold_case=True) == "src/*"
    assert canonical(f"src/**{doubtful}", fold_case=True) == "src/**"


def test_two_stars_within_a_segment_cross_segments_and_err_to_the_wide_side() -> None:
    assert matches("src/**.py", "src/a/b.py")
    assert not matches("src/**.py", "src/a/b.md")
    assert matches("src/a**/x", "src/ab/c/x")
    assert matches("src/a**b", "src/a1/2/3b")
    assert matches("src/a**b", "src/ab")
    assert matches("[a**b]", "b")
    assert not overlaps("src/**.py", "tests/a.py")


# --- against brute force --------------------------------------------------------------------------------------------

NAME_ATOMS = ["a", "b", "c", "*", "?", "[ab]", "[!a]", "[b-c]"]
NAMES = [
    "".join(atoms) for length in (1, 2, 3, 4) for atoms in product(["a", "b", "c", *NAME_ATOMS[5:]], repeat=length)
]
name_patterns = (
    st.lists(st.sampled_from(NAME_ATOMS), min_size=1, max_size=3).map("".join).filter(lambda name: "**" not in name)
)

SHORT_NAMES = ["".join(letters) for length in (1, 2) for letters in product("ab", repeat=length)]
PATHS = ["/".join(names) for length in (1, 2, 3, 4) for names in product(SHORT_NAMES, repeat=length)]
path_patterns = st.lists(
    st.sampled_from(["a", "b", "ab", "*", "**", "a*", "*b", "?", "??", "[ab]", "[!a]"]), min_size=1, max_size=2
).map("/".join)


def as_expression(pattern: str) -> re.Pattern[str]:
    """The plain definition of what a pattern covers, as a regular expression."""
    segments = [
        r"(?:[^/]+/)*" if segment == "**" else f"(?:{name_expression(segment)})/" for segment in pattern.split("/")
    ]
    return re.compile("".join(segments) + r"(?:[^/]+/)*")


def name_expression(segment: str) -> str:
    def piece(found: re.Match[str]) -> str:
        text = found[0]
        if len(text) > 1:
            return text.replace("[!", "[^/")
        return {"*": "[^/]*", "?": "[^/]"}.get(text, re.escape(text))

    as_classes = re.sub(r"\[[^]]+\]|.", piece, segment)
    as_written = re.sub(r".", piece, segment)
    return f"{as_classes}|{as_written}"


def covered(pattern: str, candidates: list[str]) -> set[str]:
    expression = as_expression(pattern)
    return {candidate for candidate in candidates if expression.fullmatch(candidate + "/")}


@given(name_patterns, name_patterns)
@settings(deadline=None, max_examples=300)
def test_two_names_overlap_exactly_when_some_name_matches_both(a: str, b: str) -> None:
    """QL-11, the property, within one segment and with classes."""
    assert overlaps(a, b) is bool(covered(a, NAMES) & covered(b, NAMES))
    assert overlaps(a, b) is overlaps(b, a)


@given(path_patterns, path_patterns)
@settings(deadline=None, max_examples=300)
def test_two_patterns_overlap_exactly_when_some_path_matches_both(a: str, b: str) -> None:
    """QL-11, the property, across segments."""
    assert overlaps(a, b) is bool(covered(a, PATHS) & covered(b, PATHS))
    assert overlaps(a, b) is overlaps(b, a)


@given(path_patterns | name_patterns)
@settings(deadline=None)
def test_matches_is_the_plain_definition(pattern: str) -> None:
    candidates = NAMES[:300] + PATHS[:300]
    assert {path for path in candidates if matches(pattern, path)} == covered(pattern, candidates)


@given(
    st.text(st.sampled_from("ab*?[]!^-/"), min_size=1, max_size=8),
    st.text(st.sampled_from("ab*?[]!^-/"), min_size=1, max_size=8),
    st.lists(st.text(st.sampled_from("ab[-"), min_size=1, max_size=2), min_size=1, max_size=3).map("/".join),
    st.booleans(),
)
@settings(deadline=None, max_examples=1000)
def test_a_path_in_both_means_overlap_and_related_prefixes_for_any_text(
    a: str, b: str, path: str, narrow: bool
) -> None:
    """QL-11, the property, for patterns of any shape, the malformed included."""
    try:
        a, b = canonical(a), canonical(b)
    except InvalidInput:
        return
    if narrow:
        b = path
    assert overlaps(a, b) is overlaps(b, a)
    if matches(a, path) and matches(b, path):
        assert overlaps(a, b)
    if overlaps(a, b):
        short, long = sorted((f"{prefix}/".removeprefix("./") for prefix in map(literal_prefix, (a, b))), key=len)
        assert long.startswith(short)


def test_the_root_covers_everything_and_only_wide_patterns_cover_the_root() -> None:
    assert overlaps(".", ".")
    assert matches(".", "any/thing")
    assert matches("**", ".")
    assert not matches("*", ".")


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [(".", "."), ("src/app.py", "src/app.py"), ("src/*.py", "src"), ("**/x", "."), ("a/b?/c", "a"), ("a/[b]/c", "a")],
)
def test_the_literal_prefix_ends_before_the_first_glob(pattern: str, prefix: str) -> None:
    assert literal_prefix(pattern) == prefix


# --- the cost -------------------------------------------------------------------------------------------------------


class TooManySteps(Exception):
    """Raised from inside the comparison, so that an explosion fails the test instead of never ending it."""


def steps_of_overlap(a: str, b: str, budget: int) -> int:
    """How many lines of `paths.py` run to compare two patterns."""
    steps = 0

    def count(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps
        if frame.f_code.co_filename != paths.__file__:
            return None
        steps += event == "line"
        if steps > budget:
            raise TooManySteps
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        overlaps(a, b)
    finally:
        sys.settrace(before)
    return steps


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("**/" + "*a" * 90, "**/" + "*a" * 89 + "*b"),
        ("*a" * 90 + "c", "*b" * 90 + "d"),
        ("**/a/" * 50 + "x", "**/b/" * 50 + "y"),
        ("**/*/" * 50 + "x", "*/**/" * 50 + "y"),
        ("*" * 200 + "x", "?" * 200),
        ("[!a]*" * 40 + "a", "*[!b]" * 40 + "b"),
        ("[" + "ac" * 100 + "]b", "[" + "bd" * 100 + "]a"),
        ("**a" * 60, "**b" * 60),
        ("[" * 200, "[" * 199 + "*"),
    ],
)
def test_hostile_patterns_cost_no_more_than_the_product_of_their_lengths(a: str, b: str) -> None:
    assert steps_of_overlap(a, b, budget=20 * len(a) * len(b)) > 0


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("*a" * 499, "*b" * 499),
        ("?*" * 499 + "x", "*?" * 499 + "y"),
        ("*[ab]" * 16 + "".join(map(chr, range(0x4E00, 0x4E00 + 500))), "*[cd]" * 16 + "x" * 500),
        ("*[ab]" * 199, "*[cd]" * 199),
        (f"[{'ac' * 400}]", f"[{'bd' * 400}]"),
    ],
)
def test_a_row_of_many_characters_is_compared_at_once(a: str, b: str) -> None:
    """Whoever claims holds the lock of all claims meanwhile, and may name a hundred patterns where others hold many."""
    assert steps_of_overlap(a, b, budget=100 * (len(a) + len(b))) > 0


places = st.sampled_from([None, *map(paths._exactly, "ab"), ((97, 98),), ((0, 96), (98, 0x10FFFF)), ((0, 0x10FFFF),)])


@given(st.lists(places, max_size=8), st.lists(places, max_size=8))
def test_rows_of_bits_say_what_the_table_says(left: paths.Reading, right: paths.Reading) -> None:
    assert paths._read_alike(left, right) == paths._meet(left, right, paths._share_a_character)


def test_what_would_cost_much_is_read_as_wider() -> None:
    deep = "/".join(["d"] * 64)
    assert canonical(f"{deep}/e/f") == deep
    assert canonical(f"/r/{deep}/e", root="/r") == deep
    assert overlaps("src/" + "[ab]" * 17, "src/anything")
    assert overlaps(f"src/[{'ac' * 33}]", "src/anything")
    assert not overlaps("src/" + "[ab]" * 17, "lib/anything")

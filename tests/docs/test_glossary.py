"""docs/glossary.md: the words that it retires are in no source and on no page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
SUFFIXES = {".py", ".md", ".txt", ".hpp", ".h", ".c", ".rs", ".js", ".html", ".cmake"}
TEXTS = {
    path: path.read_text(encoding="utf-8")
    for folder in ("src", "docs")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in SUFFIXES and path != GLOSSARY and not path.name.endswith(".min.js")
} | {ROOT / "README.md": (ROOT / "README.md").read_text(encoding="utf-8")}


def rows(title: str) -> list[list[str]]:
    """The cells of the table under a heading, without its first two lines."""
    section = GLOSSARY.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def places(word: str) -> list[str]:
    """The lines with a word, alone or as a part of a name (`kernel_holes`)."""
    pattern = re.compile(rf"(?<![a-z]){re.escape(word)}(?![a-z])", re.IGNORECASE)
    return [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}"
        for path, text in TEXTS.items()
        for match in pattern.finditer(text)
    ]


@pytest.mark.parametrize(
    "word, instead",
    [(word, instead) for words, instead in rows("Retired words") for word in words.split(", ")],
)
def test_retired_words_are_not_used(word, instead):
    assert not places(word), f"docs/glossary.md retires {word!r}: write {instead}"


def test_names_of_files_have_no_retired_words():
    words = {word for words, _ in rows("Retired words") for word in words.split(", ")}
    found = {path.name for path in TEXTS if words & set(re.split(r"[^a-z]+", path.stem.lower()))}
    assert not found


def test_a_term_is_explained_once():
    titles = re.findall(r"^## (.*)$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    terms = [term for title in titles[:-2] for names, _ in rows(title) for term in names.split(", ")]
    assert len(terms) > 60 and len(set(terms)) == len(terms)


def test_a_word_is_found_alone_and_in_names():
    assert any("structs.py" in place for place in places("frame"))


def test_the_files_to_look_into_are_there():
    named = [name for _, files in rows("Where to look") for name in re.findall(r"`(\w[\w/]*\.py)`", files)]
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "src" / "axla" / name).is_file()] == []

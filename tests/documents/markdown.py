"""The project's Markdown files in parts: commands with what they print, snippets of Python, tables and links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = tuple(sorted((*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))))
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MARKED = re.compile(r"<!-- (.+) -->\n$")
TABLE = re.compile(r"^\|.*\|\n\|[-:| ]+\|\n(?:\|.*\|\n?)+", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, where the text lies in the document, and the comment just before it."""

    language: str
    text: str
    place: slice
    mark: str | None


@dataclass(frozen=True)
class Table:
    """The heading cells of a table and its rows."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def name_of(path: Path) -> str:
    """The document's path below the project's root."""
    return path.relative_to(ROOT).as_posix()


def blocks(text: str, *languages: str) -> list[Block]:
    """The fenced blocks of these languages."""
    return [
        Block(found[1], found[2], slice(found.start(2), found.end(2)), _mark(text[: found.start()]))
        for found in FENCED.finditer(text)
        if found[1] in languages
    ]


def _mark(before: str) -> str | None:
    found = MARKED.search(before)
    return found[1] if found else None


def sessions(block: Block) -> Iterator[tuple[str, str]]:
    """Each command of a console block, and what the block shows below it."""
    for part in re.split(r"^(?=\$ )", block.text, flags=re.MULTILINE):
        if part:
            command, _, shown = part.partition("\n")
            yield command, shown


def tables(text: str) -> list[Table]:
    """The tables outside of fenced blocks."""
    return [
        Table(_cells(head), tuple(map(_cells, rows)))
        for head, _, *rows in (found[0].splitlines() for found in TABLE.finditer(FENCED.sub("", text)))
    ]


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1]))


def links(text: str) -> list[str]:
    """The targets of links and pictures."""
    return LINK.findall(FENCED.sub("", text))


def anchors(text: str) -> set[str]:
    """What a link into the document may name after `#`: its headings as Git hosts spell them."""
    plain = (re.sub(r"[`*]", "", heading).lower() for heading in HEADING.findall(FENCED.sub("", text)))
    return {re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in plain}

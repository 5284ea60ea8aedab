"""Reads `mistakes.txt`: wrong scenarios, and every line that has to be said about each.

    ## what the mistake is
    $ --set client.lr=fast          (perhaps)
    name: x                         the scenario
    => s.yaml:1:1: ...              full lines; before an ellipsis …, only the start of a line

`⟦1b⟧` in a scenario is the byte 0x1b, which an editor would not show.
"""

import itertools
import re
from pathlib import Path
from typing import NamedTuple


class Mistake(NamedTuple):
    """A wrong scenario and what is to be said about it."""

    title: str
    edits: tuple[str, ...]
    content: bytes
    lines: list[str]


def mistakes() -> list[Mistake]:
    """All of them, in order."""
    text = (Path(__file__).parent / "mistakes.txt").read_text(encoding="utf-8")
    return [_mistake(part) for part in text.split("\n## ")[1:]]


def _mistake(part: str) -> Mistake:
    title, *rest = part.rstrip("\n").split("\n")
    edits = tuple(line[8:].replace("\\n", "\n") for line in rest if line.startswith("$ --set "))
    body = [
        line
        for line in itertools.takewhile(lambda line: line[:3] != "=> ", rest)
        if line[:2] != "$ "
    ]
    raw = "".join(f"{line}\n" for line in body).encode()
    content = re.sub("⟦([0-9a-f ]*)⟧".encode(), lambda found: bytes.fromhex(found[1].decode()), raw)
    return Mistake(title, edits, content, [line[3:] for line in rest if line.startswith("=> ")])

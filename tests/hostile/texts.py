"""Texts of a stranger's."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostile.registry import attacks, opened

WORDS = b"to be or not to be " * 20
TEXT: dict[str, bytes] = {
    "a bomb": gzip.compress(bytes(64 << 20)),
    "half a bomb": gzip.compress(bytes(64 << 20))[:-20],
    "no text": bytes(range(256)) * 40,
    "nothing": b"",
    "one character": b"x",
    "a byte order mark alone": b"\xef\xbb\xbf",
}
COLUMN: dict[str, bytes] = {
    "a line without end": b"text,client\n" + b"x" * (5 << 20),
    "a cell without end": b'text,client\n"' + WORDS,
    "a column that is not there": b"a,b\n1,2\n",
    "the same column twice": b"text,text\n1,2\n",
    "a client without a name": b"text,client\n" + WORDS + b",\n",
}


def text(name: str, folder: Path) -> Callable[[], Any]:
    (folder / "set.txt").write_bytes({**TEXT, **COLUMN}[name])
    keys = ", column: text" if name in COLUMN else ""
    section = f"{{kind: text, path: set.txt{keys}, clients: 2}}"
    (folder / "s.yaml").write_text(f"name: x\ndata: {section}\n")
    return opened(folder / "s.yaml")


attacks("text", TEXT, text)
attacks("table of texts", COLUMN, text)

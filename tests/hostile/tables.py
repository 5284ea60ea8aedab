"""Tables of a stranger's, and things that are no files under the name of one."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostile.registry import attacks, opened, pickled

ROWS = b"1,0\n" * 20
TABLES: dict[str, Callable[[Path], bytes]] = {
    "formulas": lambda f: b"a,y\n=cmd|'/C touch x'!A0,0\n" + ROWS,
    "NULs": lambda f: b"a,y\n\0\0,0\n" + ROWS,
    "1,000 columns": lambda f: b",".join(b"c%d" % i for i in range(1_000)) + b",z\n" + ROWS,
    "a quote that never ends": lambda f: b'a,y\n"' + b"1,0\n" * 2_000_000,
    "terminal commands for columns": lambda f: b"\x1b]0;owned\x07,z\n" + ROWS,
    "line feeds in columns": lambda f: b'"a\n\nb",z\n' + ROWS,
    "a pickle": pickled,
    "a gzip bomb": lambda f: gzip.compress(b"a,y\n" + (b"1" + b" " * 3_000_000 + b",0\n") * 20),
    "a gzip file that was cut off": lambda f: gzip.compress(b"a,y\n" + ROWS * 99)[:40],
    "cells of formulas as categories": lambda f: (
        b"a,y\n" + b"=cmd(),0\n" * 20 + b"x\x1b[31m,0\n" * 200 + b"1,x\n"
    ),
    "a gigabyte of nothing": lambda f: b"",
}


SCENARIO = "name: x\ndata: {kind: csv, path: t.csv, clients: 2}\n"


def table(name: str, folder: Path) -> Callable[[], Any]:
    (folder / "t.csv").write_bytes(TABLES[name](folder))
    if name == "a gigabyte of nothing":
        os.truncate(folder / "t.csv", 1 << 30)  # takes no room
    (folder / "s.yaml").write_text(SCENARIO)
    return opened(folder / "s.yaml")


attacks("table", TABLES, table)

PLACES: dict[str, Callable[[Path], Any]] = {
    "a pipe": lambda path: os.mkfifo(path),
    "a link to a secret": lambda path: path.symlink_to("../secret.csv"),
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a folder that is a link upwards": lambda path: (
        (path.parent / "data").symlink_to(".."),
        (path.parent / "s.yaml").write_text(SCENARIO.replace("t.csv", "data/secret.csv")),
    ),
}  # fmt: skip


def place(name: str, folder: Path) -> Callable[[], Any]:
    (folder.parent / "secret.csv").write_text("a,y\n" + "1,0\n" * 20)
    (folder / "s.yaml").write_text(SCENARIO)
    PLACES[name](folder / "t.csv")
    return opened(folder / "s.yaml")


attacks("place", PLACES, place)

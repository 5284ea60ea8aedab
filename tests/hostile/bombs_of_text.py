"""Bombs that are tables, texts, JSON and splits."""

import gzip
import os
from pathlib import Path
from typing import Any

from hostile.bombs import bomb


@bomb
def leaf_of_brackets(folder: Path) -> dict[str, Any]:
    (folder / "train").mkdir()
    lists = b",".join([b"[]"] * 60_000_000)
    head = b'{"users": ["a"], "num_samples": [1], "user_data": {"a": {"y": [0], "x": ['
    (folder / "train" / "a.json").write_bytes(head + lists + b"]}}}")
    return {"kind": "leaf", "path": "."}


@bomb
def leaf_of_holes(folder: Path) -> dict[str, Any]:
    (folder / "train").mkdir()
    (folder / "train" / "a.json").write_bytes(b'{"users": [')
    os.truncate(folder / "train" / "a.json", 6 << 30)
    return {"kind": "leaf", "path": "."}


def _split(folder: Path, content: bytes) -> dict[str, Any]:
    (folder / "split").write_bytes(content)
    data = {"kind": "gaussian_blobs", "shape": [4], "classes": 3, "samples": 60}
    return {**data, "partition": {"kind": "file", "path": "split"}}


@bomb
def split_of_lists(folder: Path) -> dict[str, Any]:
    return _split(folder, b'{"0": [' + b",".join([b"[]"] * 60_000_000) + b"]}")


@bomb
def split_of_lists_packed(folder: Path) -> dict[str, Any]:
    return _split(folder, gzip.compress(b'{"0": [' + b",".join([b"[]"] * 60_000_000) + b"]}", 1))


@bomb
def csv_in_one_line(folder: Path) -> dict[str, Any]:
    (folder / "t.csv.gz").write_bytes(gzip.compress(b"a,y\n" + b"1" * 2_000_000_000, 1))
    return {"kind": "csv", "path": "t.csv.gz"}


@bomb
def csv_of_wrong_rows(folder: Path) -> dict[str, Any]:
    (folder / "t.csv.gz").write_bytes(gzip.compress(b"a,y\n" + b"1\n" * 400_000_000, 1))
    return {"kind": "csv", "path": "t.csv.gz"}


@bomb
def sparse_csv(folder: Path) -> dict[str, Any]:
    (folder / "t.csv").write_bytes(b"a,y\n1,0\n")
    os.truncate(folder / "t.csv", 6 << 30)
    return {"kind": "csv", "path": "t.csv"}


@bomb
def text_of_one_word(folder: Path) -> dict[str, Any]:
    (folder / "t.txt.gz").write_bytes(gzip.compress(b"x" * 2_000_000_000, 1))
    return {"kind": "text", "path": "t.txt.gz", "tokens": "word"}


@bomb
def sparse_text(folder: Path) -> dict[str, Any]:
    (folder / "t.txt").write_bytes(b"to be")
    os.truncate(folder / "t.txt", 6 << 30)
    return {"kind": "text", "path": "t.txt"}


@bomb
def text_in_long_sequences(folder: Path) -> dict[str, Any]:
    (folder / "t.csv").write_text("text\n" + "ab\n" * 2_000_000)
    return {"kind": "text", "path": "t.csv", "column": "text", "length": 100_000}

"""A stranger's images: headers that lie, bombs, programs, pickles, ways out of the folder."""

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from encoded import FORM, chunk, encoded, image_column, png_of, saved, typed
from hostile.registry import attacks, canary, opened, pickled

GREY = encoded(np.arange(64, dtype=np.uint8).reshape(8, 8))


def text_bomb() -> bytes:
    """A PNG with 8 MB of compressed text in front of its pixels."""
    text = chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(8 << 20)))
    return GREY[:33] + text + GREY[33:]


IMAGES: dict[str, Callable[[Path], bytes]] = {
    "a pickle": pickled,
    "a bomb of pixels": lambda f: png_of(60_000, 60_000, bytes(1 << 20)),
    "a bomb of text": lambda f: text_bomb(),
    "PostScript that runs": lambda f: (
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n(%pipe%touch "
        + str(canary(f)).encode()
        + b") (w) file\n"
    ),
}


def image(name: str, folder: Path) -> Callable[[], Any]:
    for label in ("a", "b"):
        (folder / "set" / label).mkdir(parents=True)
        (folder / "set" / label / "1.png").write_bytes(GREY)
    (folder / "set/b/2.png").write_bytes(IMAGES[name](folder))
    return _opened(folder, "imagefolder")


attacks("image", IMAGES, image)


def _opened(folder: Path, kind: str) -> Callable[[], Any]:
    (folder / "s.yaml").write_text(f"name: x\ndata: {{kind: {kind}, path: set, clients: 2}}\n")
    return opened(folder / "s.yaml")


def table(*images: bytes) -> pa.Table:
    columns = {"image": image_column(list(images)), "label": [0] * len(images)}
    return typed(pa.table(columns), {"image": FORM})


def parquet(folder: Path, content: bytes | pa.Table) -> None:
    if isinstance(content, bytes):
        (folder / "train.parquet").write_bytes(content)
    else:
        pq.write_table(content, folder / "train.parquet")


def linked(folder: Path) -> None:
    parquet(folder, table(GREY, GREY))
    os.rename(folder / "train.parquet", folder.parent.parent / "secret.parquet")
    (folder / "train.parquet").symlink_to("../../secret.parquet")


SETS: dict[str, Callable[[Path], Any]] = {
    "a pickle for a table": lambda f: parquet(f, pickled(f.parent)),
    "images that are pickles": lambda f: saved(table(pickled(f.parent)), f),
    "a packed stream": lambda f: saved(table(*[bytes(1 << 20)] * 4), f, compression="zstd"),
    "a thousand rows of one bomb": lambda f: parquet(f, table(*[png_of(9000, 9000)] * 1000)),
    "a table that is a link": linked,
}  # fmt: skip


def image_set(name: str, folder: Path) -> Callable[[], Any]:
    (folder / "set").mkdir()
    SETS[name](folder / "set")
    return _opened(folder, "huggingface")


attacks("image set", SETS, image_set)

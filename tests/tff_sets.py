"""HDF5 files of examples by client as TensorFlow Federated writes them, and malicious ones."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

TEXTS = h5py.string_dtype()


def written(path: Path, clients: dict[str, dict], **options: Any) -> Path:
    """Write a file of examples, `{client: {field: values}}`, as TensorFlow Federated does."""
    path.parent.mkdir(exist_ok=True)
    with h5py.File(path, "w") as file:
        for client, fields in clients.items():
            group = file.create_group(f"examples/{client}")
            for name, values in fields.items():
                kind = TEXTS if isinstance(values, list) else None
                group.create_dataset(name, data=values, dtype=kind, **options)
    return path


def emnist(n: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    pixels = (rng.integers(0, 256, (n, 28, 28)) / 255).astype(np.float32)
    return {"pixels": pixels, "label": rng.integers(0, 62, n).astype(np.int32)}


def spoiled(name: str, path: Path) -> Path:
    """Write a file that leads elsewhere, or promises what is not there."""
    written(path.parent / "secret.h5", {"a": emnist(3)})
    with h5py.File(written(path, {"a": {"label": np.arange(3)}}), "r+") as file:
        group = file["examples/a"]
        if name == "a link to another file":
            group["pixels"] = h5py.ExternalLink("secret.h5", "/examples/a/pixels")
        elif name == "clients in another file":
            del file["examples"]
            file["examples"] = h5py.ExternalLink("secret.h5", "/examples")
        elif name == "a link by name":
            group["pixels"] = h5py.SoftLink("/examples/a/label")
        elif name == "a virtual data set":
            layout = h5py.VirtualLayout((3, 28, 28), "f4")
            layout[:] = h5py.VirtualSource("secret.h5", "examples/a/pixels", (3, 28, 28))
            group.create_virtual_dataset("pixels", layout)
        elif name == "values in another file":
            group.create_dataset("pixels", (3, 28, 28), "f4", external=[("/etc/passwd", 0, 9408)])
        elif name == "a huge promise":
            group.create_dataset("pixels", (1 << 40, 28, 28), "f4")
        elif name == "a promise of chunks":
            group.create_dataset("pixels", (1 << 24, 28, 28), "u1", chunks=(1024, 28, 28))
        elif name == "a huge chunk":
            group.create_dataset(
                "pixels", (3, 28, 28), "f4", maxshape=(None, 28, 28), chunks=(1 << 20, 28, 28)
            )
        elif name == "a bomb":
            group.create_dataset(
                "pixels",
                data=np.zeros((1 << 13, 28, 28), "f4"),
                compression="gzip",
                compression_opts=9,
            )
        elif name == "references":
            group.create_dataset("pixels", data=[file.ref] * 3, dtype=h5py.ref_dtype)
        elif name == "records":
            group.create_dataset("pixels", data=np.zeros(3, [("a", "f4")]))
        elif name == "lists of numbers":
            group.create_dataset("pixels", (3,), h5py.vlen_dtype("f4"))
        elif name == "no array":
            group.create_group("pixels")
        elif name == "one number":
            group["pixels"] = 1.0
        elif name == "an empty space":
            group["pixels"] = h5py.Empty("f4")
        elif name == "one text for many":
            texts = group.create_dataset("snippets", (20_000,), TEXTS)
            texts[0] = "x" * 1_000_000
            offset = texts.id.get_offset()
    if name == "one text for many":
        content = bytearray(path.read_bytes())
        content[offset : offset + 16 * 20_000] = bytes(content[offset : offset + 16]) * 20_000
        path.write_bytes(content)
    return path


SPOILED = {
    "a link to another file": "'pixels' is a link to another object",
    "clients in another file": "'examples' is a link to another object",
    "a link by name": "is a link to another object",
    "a virtual data set": "are in other files",
    "values in another file": "are in other files",
    "a huge promise": "to more than 8589934592 bytes, or 200 times its size",
    "a promise of chunks": "more than 8589934592 bytes",
    "a huge chunk": "promises 9408 bytes, but not all of them are there",
    "a bomb": "or 200 times its size",
    "references": "expected numbers or texts, found object",
    "records": "expected numbers or texts, found [('a', '<f4')]",
    "lists of numbers": "expected numbers or texts, found object",
    "no array": "'pixels' is not a dataset",
    "one number": "not an array with a row for each example",
    "an empty space": "not an array with a row for each example",
    "one text for many": "or 200 times its size",
}

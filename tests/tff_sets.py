"""HDF5 files of examples by client as TensorFlow Federated writes them, and damaged ones."""

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
    """Write a file that promises too much, or holds something else."""
    with h5py.File(written(path, {"a": {"label": np.arange(3)}}), "r+") as file:
        group = file["examples/a"]
        if name == "a huge promise":
            group.create_dataset("pixels", (1 << 40, 28, 28), "f4")
        elif name == "references":
            group.create_dataset("pixels", data=[file.ref] * 3, dtype=h5py.ref_dtype)
        elif name == "no array":
            group.create_group("pixels")
    return path


SPOILED = {
    "a huge promise": "does not fit into memory",
    "references": "expected pixels of shape (28, 28)",
    "no array": "client 'a', pixels: not a sound HDF5 file",
}

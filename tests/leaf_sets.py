"""LEAF's JSON files in their real format, with random samples and sizes scaled from the paper's."""

import json
from pathlib import Path

import numpy as np

MEAN, DEVIATION = 226.83, 88.94  # FEMNIST's samples per writer, LEAF's table 1


def written(folder: Path, part: str, users: dict[str, tuple[list, list]], files: int = 1) -> None:
    """Write users' samples as LEAF's scripts do, in a number of files."""
    subfolder = folder / part
    subfolder.mkdir(parents=True, exist_ok=True)
    names = sorted(users)
    for i in range(files):
        members = names[i::files]
        data = {name: {"x": users[name][0], "y": users[name][1]} for name in members}
        counts = [len(users[name][1]) for name in members]
        content = {"users": members, "num_samples": counts, "user_data": data}
        (subfolder / f"all_data_{i}_niid_0_keep_0_{part}_9.json").write_text(json.dumps(content))


def sizes(clients: int, scale: float, rng: np.random.Generator) -> np.ndarray:
    """The number of samples of each writer."""
    return np.maximum(np.rint(rng.normal(MEAN, DEVIATION, clients) * scale), 2).astype(int)


def femnist(
    folder: Path, clients: int = 3500, scale: float = 20 / MEAN, files: int = 36, seed: int = 0
) -> int:
    """Write learnable images of 62 classes, each writer with its ink; return the number."""
    rng = np.random.default_rng(seed)
    shapes = rng.random((62, 784)) < 0.2
    parts: dict[str, dict] = {"train": {}, "test": {}}
    total = 0
    for k, n in enumerate(sizes(clients, scale, rng)):
        y = rng.integers(0, 62, n)
        ink = rng.integers(128, 256) * (shapes[y] ^ (rng.random((n, 784)) < 0.02))
        x = 1 - ink / 255
        cut = max(n // 10, 1)
        name = f"f{k // 100:04d}_{k % 100:02d}"
        parts["train"][name] = (x[cut:].tolist(), y[cut:].tolist())
        parts["test"][name] = (x[:cut].tolist(), y[:cut].tolist())
        total += int(n)
    for part, users in parts.items():
        written(folder, part, users, files)
    return total

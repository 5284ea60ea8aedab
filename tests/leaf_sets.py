"""LEAF's JSON files in their real format."""

import json
from pathlib import Path


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

"""Compare two versions of fedsim: the values of every shipped scenario, byte by byte.

python -m tests.values run FOLDER [NAME ...]   # run the imported fedsim; results in FOLDER/NAME
python -m tests.values compare ONE OTHER       # common columns of tables, and models

`compare` ends with exit code 1 if they differ. To compare with an earlier version, run it from a
checkout of that version with PYTHONPATH set to it.
"""

import csv
import os
import sys
from pathlib import Path

SCENARIOS = Path(__file__).parents[1] / "scenarios"
TABLES = ("rounds", "clients", "partition", "summary", "compare", "across", "profiles", "tuning")


def shipped() -> dict[str, Path]:
    """Every scenario by its path without the suffix, with `/` replaced by `-`."""
    files = sorted(SCENARIOS.rglob("*.yaml"))
    return {
        str(file.relative_to(SCENARIOS).with_suffix("")).replace("/", "-"): file for file in files
    }


def run(target: Path, names: list[str]) -> None:
    """Run scenarios with four threads, or compare if the scenario has methods to compare."""
    os.environ.setdefault("NPROC", "4")
    import yaml

    import fedsim

    for name, file in shipped().items():
        if names and name not in names:
            continue
        out = target / name
        if (yaml.safe_load(file.read_text()).get("compare") or {}).get("methods"):
            fedsim.compare(file, out=out, force=True, pictures=False)
        else:
            fedsim.run(file, out=out, force=True, pictures=False)
        print(name, flush=True)


def differences(one: Path, other: Path) -> list[str]:
    """Return a line per difference between two folders; missing files count, columns do not."""
    lines = []
    for folder in sorted(path for path in one.iterdir() if path.is_dir()):
        for file in sorted([*folder.glob("*.csv"), *folder.glob("model.*")]):
            twin = other / folder.name / file.name
            if file.suffix == ".csv" and file.stem not in TABLES:
                continue
            if not twin.is_file():
                lines.append(f"{twin}: is missing")
            elif file.suffix == ".csv":
                lines += [f"{folder.name}/{file.name}: {line}" for line in _cells(file, twin)]
            elif file.read_bytes() != twin.read_bytes():
                lines.append(f"{folder.name}/{file.name}: differs")
    return lines


def _cells(one: Path, other: Path) -> list[str]:
    tables = [list(csv.DictReader(path.open(newline=""))) for path in (one, other)]
    if len(tables[0]) != len(tables[1]):
        return [f"{len(tables[0])} rows and {len(tables[1])}"]
    for number, rows in enumerate(zip(*tables, strict=True), 2):
        for column in [name for name in rows[0] if name in rows[1]]:
            if rows[0][column] != rows[1][column]:
                return [f"line {number}, {column}: {rows[0][column]} and {rows[1][column]}"]
    return []


def main(words: list[str]) -> int:
    """Run one of the two commands."""
    if words[:1] == ["run"] and len(words) > 1:
        run(Path(words[1]), words[2:])
        return 0
    if words[:1] == ["compare"] and len(words) == 3:
        lines = differences(Path(words[1]), Path(words[2]))
        print("\n".join(lines) or "equal")
        return bool(lines)
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Two versions of fedsim side by side: the values of every shipped scenario, byte by byte.

python -m tests.values run PLACE [NAME ...]   # with the fedsim that is imported, into PLACE/NAME
python -m tests.values compare ONE OTHER      # tables without columns that were added, and models; exit code 1 where they differ

To compare with an earlier version, run it from a checkout of that version with PYTHONPATH set to it.
"""

import csv
import os
import sys
from pathlib import Path

SCENARIOS = Path(__file__).parents[1] / "scenarios"
TABLES = ("rounds", "clients", "partition", "summary", "compare", "across", "profiles", "tuning")


def shipped() -> dict[str, Path]:
    """Every scenario by its path without the ending, `/` as `-`."""
    files = sorted(SCENARIOS.rglob("*.yaml"))
    return {
        str(file.relative_to(SCENARIOS).with_suffix("")).replace("/", "-"): file for file in files
    }


def run(place: Path, names: list[str]) -> None:
    """Run scenarios, and compare where one says what to compare, with four threads."""
    os.environ.setdefault("NPROC", "4")
    import yaml

    import fedsim

    for name, file in shipped().items():
        if names and name not in names:
            continue
        out = place / name
        if (yaml.safe_load(file.read_text()).get("compare") or {}).get("methods"):
            fedsim.compare(file, out=out, force=True, pictures=False)
        else:
            fedsim.run(file, out=out, force=True, pictures=False)
        print(name, flush=True)


def differences(one: Path, other: Path) -> list[str]:
    """What differs between two places, a line each; columns that only one has do not count, missing files do."""
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
    """The two commands."""
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

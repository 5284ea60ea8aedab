"""The scenarios that come with fedsim, by name: `iid`, `compare/rules`, or `rules` where no other has that name."""

import itertools
from pathlib import Path

import fedsim

ENDINGS = ("", ".yaml", ".yml")


def shipped() -> dict[str, Path]:
    """Name, the path below their folder without its ending -> file; empty where they are neither installed nor beside us."""
    package = Path(fedsim.__file__).parent
    for folder in (package / "shipped", package.parent / "scenarios"):
        if files := sorted(folder.rglob("*.yaml"), key=lambda file: (len(file.parts), file)):
            return {file.relative_to(folder).with_suffix("").as_posix(): file for file in files}
    return {}


def found(written: str | Path) -> Path:
    """The file that is meant: a local one, with its ending or without, or else one that comes with fedsim.

    Where there is none, or several that come with fedsim: the path as it was written.
    """
    path = Path(written)
    local = next((file for ending in ENDINGS if (file := Path(f"{path}{ending}")).is_file()), None)
    if local is not None or path.is_absolute():
        return local or path
    known = shipped()
    named = [file for name, file in known.items() if name.rpartition("/")[2] == str(path)]
    return known.get(path.as_posix()) or (named[0] if len(named) == 1 else path)


def about(file: Path) -> str:
    """What a scenario says of itself: its first comment."""
    lines = (
        line
        for line in file.read_text(encoding="utf-8").splitlines()
        if not line.startswith("# yaml-language")
    )
    comment = itertools.takewhile(lambda line: line.strip("# "), lines)
    return " ".join(line.strip("# ") for line in comment if line.startswith("#"))

"""The scenarios that come with fedsim, by name: `iid`, `compare/rules`, or just `rules`."""

import itertools
from pathlib import Path

import yaml

import fedsim

ENDINGS = ("", ".yaml", ".yml")


def shipped() -> dict[str, Path]:
    """Return name -> file of the scenarios; the name is the path in their folder without ending.

    They are in the installed package, or beside it in a checkout; else there are none.
    """
    package = Path(fedsim.__file__).parent
    for folder in (package / "shipped", package.parent / "scenarios"):
        files = sorted(folder.rglob("*.yaml"), key=lambda file: (len(file.parts), file))
        if files:
            return {file.relative_to(folder).with_suffix("").as_posix(): file for file in files}
    return {}


def scenario_file(name: str | Path) -> Path:
    """Return the file that a name means: a local one, or one that comes with fedsim.

    The ending may be left out, and of a scenario that comes with fedsim the folder, if no other one
    has the same name. If there is no such file, the name is returned as a path.
    """
    path = Path(name)
    for ending in ENDINGS:
        local = Path(f"{path}{ending}")
        if local.is_file():
            return local
    return shipped_file(path) or path


def shipped_file(name: str | Path) -> Path | None:
    """Return the file of a scenario that comes with fedsim; None if none has this name.

    The folder may be left out if no other scenario has the same name.
    """
    path = Path(name)
    scenarios = shipped()
    if path.as_posix() in scenarios:
        return scenarios[path.as_posix()]
    of_that_name = [f for other, f in scenarios.items() if other.rpartition("/")[2] == str(path)]
    return of_that_name[0] if len(of_that_name) == 1 else None


def about(file: Path) -> str:
    """Return what a scenario asks: its title, or else its first comment."""
    lines = file.read_text(encoding="utf-8").splitlines()
    for line in lines:
        if line.startswith("title: "):
            return str(yaml.safe_load(line)["title"])
    lines = [line for line in lines if not line.startswith("# yaml-language")]
    comment = itertools.takewhile(lambda line: line.strip("# "), lines)
    return " ".join(line.strip("# ") for line in comment if line.startswith("#"))

"""`.venv/bin/python .ci/freeze.py` writes `.ci/constraints.txt`: the versions here of all that fedsim and its extras need.

To be run in the environment that a green `FEDSIM_NEWEST=1 .ci/run` leaves behind. Only what fedsim asks for, and what
that asks for, is listed; whatever else is installed here is nobody's business.
"""

import re
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

PACKAGE, EXTRAS = "fedsim-jax", ("dev", "tools", "tests")
BUNDLED = {
    "pip",
    "setuptools",
    "wheel",
}  # of a virtual environment: as old as its Python, and wrong for another one
FILE = Path(__file__).with_name("constraints.txt")
HEAD = """\
# The versions that the last green run of .ci/run had, with Python {python}; .ci/freeze.py writes this file.
# To install just these: .venv/bin/pip install -c .ci/constraints.txt -e .
"""


def plain(name: str) -> str:
    """The name of a package in its one spelling."""
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for(package: str, extras: Iterable[str]) -> list[Requirement]:
    """What a package needs here, with these extras."""
    requirements = map(Requirement, requires(package) or ())
    environments = [{"extra": extra} for extra in ("", *extras)]
    return [
        requirement
        for requirement in requirements
        if requirement.marker is None or any(map(requirement.marker.evaluate, environments))
    ]


def needed(package: str, extras: Iterable[str]) -> dict[str, str]:
    """Version by name of everything that a package needs here, directly or not.

    Raises:
      PackageNotFoundError: where something of it is not installed.
    """
    versions: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = asked_for(package, extras)
    while waiting:
        requirement = waiting.pop()
        name, wanted = plain(requirement.name), frozenset(requirement.extras)
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        versions[name] = version(name).partition("+")[
            0
        ]  # what a local build adds is found nowhere else
        waiting += asked_for(name, wanted)
    return versions


def main() -> None:
    """Write the file."""
    try:
        versions = needed(PACKAGE, EXTRAS)
    except PackageNotFoundError as missing:
        install = f".venv/bin/pip install -e '.[{','.join(EXTRAS)}]'"
        sys.exit(f"{missing.name} is not installed here; {install}, then once more")
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    names = sorted(versions.keys() - BUNDLED - {PACKAGE})
    lines = [f"{name}=={versions[name]}\n" for name in names]
    FILE.write_text(HEAD.format(python=python) + "".join(lines), encoding="utf-8")
    print(f"{FILE}: {len(lines)} versions")


if __name__ == "__main__":
    main()

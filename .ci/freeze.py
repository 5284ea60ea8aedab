"""Write `.ci/constraints.txt`: the installed versions of all that fedsim and its extras need.

Run `.venv/bin/python .ci/freeze.py` in the environment that a green `FEDSIM_NEWEST=1 .ci/run`
leaves. Only the direct and indirect requirements of fedsim are listed, not everything installed.
"""

import re
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

PACKAGE = "fedsim-jax"
EXTRAS = ("dev", "tools", "tests", "privacy")
# These come with a virtual environment, are as old as its Python, and would be wrong for another.
BUNDLED = {"pip", "setuptools", "wheel"}
FILE = Path(__file__).with_name("constraints.txt")
HEAD = """\
# The versions of the last green run of .ci/run, with Python {python}; written by .ci/freeze.py.
# To install these: .venv/bin/pip install -c .ci/constraints.txt -e .
"""


def plain(name: str) -> str:
    """Return the normalised name of a package."""
    return re.sub(r"[-_.]+", "-", name).lower()


def asked_for(package: str, extras: Iterable[str]) -> list[Requirement]:
    """Return the direct requirements of a package in this environment, with these extras."""
    requirements = map(Requirement, requires(package) or ())
    environments = [{"extra": extra} for extra in ("", *extras)]
    return [
        requirement
        for requirement in requirements
        if requirement.marker is None or any(map(requirement.marker.evaluate, environments))
    ]


def needed(package: str, extras: Iterable[str]) -> dict[str, str]:
    """Return the installed version, by name, of all direct and indirect requirements of a package.

    Raises:
      PackageNotFoundError: if one of them is not installed.
    """
    versions: dict[str, str] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = asked_for(package, extras)
    while waiting:
        requirement = waiting.pop()
        name = plain(requirement.name)
        wanted = frozenset(requirement.extras)
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        # The suffix of a local build is in no registry.
        versions[name] = version(name).partition("+")[0]
        waiting += asked_for(name, wanted)
    return versions


def main() -> None:
    """Write the file."""
    try:
        versions = needed(PACKAGE, EXTRAS)
    except PackageNotFoundError as missing:
        install = f".venv/bin/pip install -e '.[{','.join(EXTRAS)}]'"
        sys.exit(f"{missing.name} is not installed here; run {install}, then this again")
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    names = sorted(versions.keys() - BUNDLED - {PACKAGE})
    lines = [f"{name}=={versions[name]}\n" for name in names]
    FILE.write_text(HEAD.format(python=python) + "".join(lines), encoding="utf-8")
    print(f"{FILE}: {len(lines)} versions")


if __name__ == "__main__":
    main()

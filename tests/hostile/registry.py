"""A stranger's files: each attack writes its files into a folder and returns how a user opens them.

`ATTACKS[name](folder)` returns a function that must raise one of fedsim's errors. A payload that is
executed creates the file `canary` next to the folder.
"""

import functools
import os
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.scenario import read

Attack = Callable[[Path], Callable[[], Any]]
ATTACKS: dict[str, Attack] = {}


class Payload:
    """Creates the canary when it is unpickled."""

    def __init__(self, folder: Path):
        self.command = f"touch {canary(folder)}"

    def __reduce__(self):
        return os.system, (self.command,)


def canary(folder: Path) -> Path:
    """What must not come to be."""
    return folder.parent / "canary"


def pickled(folder: Path) -> bytes:
    """A pickle that would leave it."""
    return pickle.dumps(Payload(folder))


def attacks(group: str, names: Iterable[str], make: Callable[[str, Path], Any]) -> None:
    """One more attack for every name, which is passed with the folder."""
    for name in names:
        ATTACKS[f"{group}: {name}"] = functools.partial(make, name)


def opened(path: Path, *edits: str) -> Callable[[], Any]:
    """Read and build a scenario, as every command does."""

    def act():
        scenario = read(path, edits)
        with numerics(scenario) as devices:
            return build(scenario, devices=devices[:1])

    return act

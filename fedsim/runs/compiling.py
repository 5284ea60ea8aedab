"""How long the programs of a comparison compile: what it took before, remembered in a file."""

import contextlib
import json
import statistics
from pathlib import Path
from typing import Annotated

import jax
from annotated_types import Len
from pydantic import StringConstraints, TypeAdapter

from fedsim.disk import files
from fedsim.engine.clock import compile_seconds
from fedsim.errors import DirectoryError
from fedsim.study.words import count, seconds_in_words

FILE = "fedsim-seconds.json"  # in the folder of the compile cache
REMEMBERED = 100  # comparisons
LEAST = 1.0  # second: less is not worth a word, and says nothing about others

# Of each comparison the first time and the last one, by its name and the number of its programs.
TIMES = TypeAdapter(
    dict[
        Annotated[str, StringConstraints(pattern=r" [1-9]\d*$")],
        Annotated[list[float], Len(1, 2)],
    ]
)


class Compiling:
    """The programs of a run or a comparison that compile from here on.

    Attributes:
      words: how many they are, and about how long it takes if somebody knows.
    """

    def __init__(self, name: str, programs: int):
        self.name = name
        self.programs = programs
        self.before = compile_seconds()  # of this process
        self.memory = Memory(jax.config.values["jax_compilation_cache_dir"])
        self.words = f"compiling {count(programs, 'program')}"
        seconds = self.memory.expected(name, programs)
        if seconds is not None:
            self.words += f", about {seconds_in_words(seconds)}"

    def remember(self) -> None:
        """All runs have ended: remember how long their programs compiled."""
        self.memory.add(self.name, self.programs, compile_seconds() - self.before)


class Memory:
    """Seconds that comparisons took to compile on this machine.

    The first time takes longer than all later ones, for which most programs are in the cache.

    Args:
      folder: of the compile cache; None: nothing is known, and nothing is remembered.
    """

    def __init__(self, folder: str | None):
        self.path = None if folder is None else Path(folder) / FILE

    def expected(self, name: str, programs: int) -> float | None:
        """Return the seconds that a comparison will take to compile; None: few, or nobody knows.

        Of one that compiled twice or more often, it is the last time; of one that never did, the
        median of a program in the others.
        """
        before = self._read()
        times = before.get(_key(name, programs), [])
        if times:
            return times[-1] if len(times) > 1 and times[-1] >= LEAST else None
        of_a_program = [first / int(key.split()[-1]) for key, (first, *_) in before.items()]
        return programs * statistics.median(of_a_program) if of_a_program else None

    def add(self, name: str, programs: int, seconds: float) -> None:
        """Remember what a comparison took; a file that cannot be written is left as it is.

        The first time is not remembered if hardly anything compiled.
        """
        before = self._read()
        key = _key(name, programs)
        if self.path is None or (key not in before and seconds < LEAST):
            return
        times = before.pop(key, [])
        latest = {key: [*times[:1], round(seconds, 2)], **before}  # the last one comes first
        kept = dict(list(latest.items())[:REMEMBERED])
        with contextlib.suppress(DirectoryError):
            files.publish(self.path, json.dumps(kept))

    def _read(self) -> dict[str, list[float]]:
        """What is remembered; nothing where the file is missing or damaged."""
        if self.path is None:
            return {}
        try:
            return TIMES.validate_json(self.path.read_bytes())
        except (OSError, ValueError):  # pydantic's error is a ValueError
            return {}


def _key(name: str, programs: int) -> str:
    return f"{name} {programs}"

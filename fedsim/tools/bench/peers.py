"""Other libraries, each in a Python that has it: which there are, and how long they take.

Their programs are in `foreign`, and import nothing of fedsim.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.errors import LostError

FOREIGN = Path(__file__).parent / "foreign"


class Tool(NamedTuple):
    """What a library needs."""

    modules: tuple[str, ...]  # imported; the version is that of the first
    install: str  # words after `pip install`


TOOLS = {
    "torch": Tool(("torch",), "torch"),
    "byzfl": Tool(("byzfl",), "byzfl"),
    "flower": Tool(("flwr", "ray", "torch"), "'flwr[simulation]' torch"),
    "fedjax": Tool(("fedjax",), "fedjax"),
}
PROGRAMS = {  # what is measured -> tool -> module of `foreign`
    "rules": {"torch": "torch_rules", "byzfl": "byzfl_rules"},
    "rounds": {"torch": "torch_rounds", "flower": "flower_rounds", "fedjax": "fedjax_rounds"},
}

IMPORT = """
import importlib, importlib.metadata, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(importlib.metadata.version(sys.argv[1]))
"""


class Peer(NamedTuple):
    """A library that can be imported."""

    tool: str
    version: str
    python: str


def importable(
    workloads: Collection[str], pythons: Mapping[str, str]
) -> tuple[list[Peer], dict[str, str]]:
    """Return the peers that can be imported.

    Args:
      workloads: keys of PROGRAMS, and scenarios, which are rounds; empty: rounds and rules.
      pythons: tool -> the Python that has it; this one, where a tool is not named.

    Returns:
      Those peers that have a program for it, and for every other tool a line on how to get it.
    """
    peers = []
    missing = {}
    measured = [PROGRAMS.get(name, PROGRAMS["rounds"]) for name in workloads or ("rounds", "rules")]
    for tool, (modules, install) in TOOLS.items():
        if not any(tool in programs for programs in measured):
            continue
        python = pythons.get(tool, sys.executable)
        done = subprocess.run(
            [python, "-c", IMPORT, *modules],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            cwd=FOREIGN,
            env=environment(),
        )
        if done.returncode == 0:
            peers.append(Peer(tool, done.stdout.split()[-1], python))
            continue
        reason = last_line(done.stderr, done.returncode)
        remedy = f"pip install {install}, or --peers {tool}=PYTHON"
        missing[tool] = f"{tool}: {python}: {reason}; {remedy}"
    return peers, missing


def last_line(errors: str, code: int) -> str:
    """The last line that a process printed on stderr, or else its exit code."""
    lines = errors.strip().splitlines()
    return lines[-1] if lines else f"exit code {code}"


class Answering:
    """A peer whose process is running."""

    def __init__(self, peer: Peer, program: str):
        self.peer = peer
        self.names: list[str] = []  # what it can do with the rows drawn last
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in `end`
        self._process = subprocess.Popen(
            [peer.python, str(FOREIGN / "answer.py"), program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment(),
            text=True,
        )

    def draw(self, rows: int, columns: int) -> None:
        """Draw normally distributed rows, from the seed 0."""
        self.names = self._ask({"rows": rows, "columns": columns})["names"]

    def seconds(self, name: str, calls: int = 1) -> float:
        """Return the seconds of a call, the mean of some."""
        return self._ask({"name": name, "calls": calls})["seconds"]

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """The answer to a question.

        Raises:
          LostError: when the process has ended.
        """
        assert self._process.stdin and self._process.stdout
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if answer:
            return json.loads(answer)

        code = self._process.wait()
        self._errors.seek(0)
        reason = last_line(self._errors.read(), code)
        asked = ", ".join(f"{key} {value}" for key, value in question.items())
        raise LostError(f"{self.peer.tool} ended when asked for {asked}: {reason}")

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()


@contextlib.contextmanager
def answering(peers: Iterable[Peer], measured: str) -> Iterator[list[Answering]]:
    """Start the peers that have a program for what is measured, and end them afterwards."""
    with contextlib.ExitStack() as stack:
        started = []
        for peer in peers:
            program = PROGRAMS[measured].get(peer.tool)
            if program is not None:
                started.append(Answering(peer, program))
                stack.callback(started[-1].end)
        yield started


def environment() -> dict[str, str]:
    """Return the environment of a peer, whose threads are its own matter."""
    return {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}

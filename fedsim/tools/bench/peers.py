"""Other libraries, each in a Python that has it: which there are, and how long they take.

Their programs are in `foreign`, and import nothing of fedsim.
"""

import json
import os
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fedsim.errors import LostError

FOREIGN = Path(__file__).parent / "foreign"


class Tool(NamedTuple):
    """What a library needs, and which of `foreign` have its programs."""

    modules: tuple[str, ...]  # imported; the version is that of the first
    install: str  # words after `pip install`
    rules: str = ""  # the program that times rules; empty: none
    rounds: str = ""  # the program that plays rounds; empty: none
    ways: tuple[str, ...] = ()  # in which it plays them
    models: tuple[str, ...] = ()  # that it has


OF_TORCH = ("logistic", "mlp", "cnn", "lenet", "resnet", "char_lstm", "transformer")
TOOLS = {
    "torch": Tool(
        modules=("torch",),
        install="torch",
        rules="torch_rules.py",
        rounds="torch_rounds.py",
        ways=("loop", "processes"),
        models=OF_TORCH,
    ),
    "flower": Tool(
        modules=("flwr", "ray", "torch"),
        install="'flwr[simulation]' torch",
        rounds="flower_rounds.py",
        ways=("ray",),
        models=OF_TORCH,
    ),
    "fedjax": Tool(
        modules=("fedjax",),
        install="fedjax",
        rounds="fedjax_rounds.py",
        ways=("jit",),
        models=("logistic", "mlp", "cnn"),
    ),
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
      workloads: `rules`, and scenarios, which are rounds; empty: both.
      pythons: tool -> the Python that has it; this one, where a tool is not named.

    Returns:
      Those peers that have a program for it, and for every other tool a line on how to get it.
    """
    peers = []
    missing = {}
    has_rules = not workloads or "rules" in workloads
    has_rounds = not workloads or {*workloads} != {"rules"}
    for tool, needs in TOOLS.items():
        if not ((has_rules and needs.rules) or (has_rounds and needs.rounds)):
            continue
        python = pythons.get(tool, sys.executable)
        done = subprocess.run(
            [python, "-c", IMPORT, *needs.modules],
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
        remedy = f"pip install {needs.install}, or --peers {tool}=PYTHON"
        missing[tool] = f"{tool}: {python}: {reason}; {remedy}"
    return peers, missing


def last_line(errors: str, code: int) -> str:
    """The last line that a process printed on stderr, or else its exit code."""
    lines = errors.strip().splitlines()
    return lines[-1] if lines else f"exit code {code}"


def answer_of(who: str, command: list[str]) -> Any:
    """Run a program -> what it prints last, which is JSON.

    Raises:
      LostError: where it fails, with the last line of its errors.
    """
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        env=environment(),
    )
    if done.returncode:
        raise LostError(f"{who}: {last_line(done.stderr, done.returncode)}")
    return json.loads(done.stdout.splitlines()[-1])


def environment() -> dict[str, str]:
    """Return the environment of a peer, whose threads are its own matter."""
    return {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}

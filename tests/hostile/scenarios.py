"""A stranger's scenario files and `--set` options; a payload would leave its mark at CANARY."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostile.registry import attacks, canary, opened, pickled

HEAD = "name: x\ndata: digits\n"
TEXTS = {
    "a tag that calls a function": (
        "name: !!python/object/apply:os.system ['touch CANARY']\ndata: digits\n"
    ),
    "a bomb of aliases": (
        "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c]\n"
    ),
    "a bomb of brackets": "name: " + "[" * 200_000,
    "a bomb of dashes": "- " * 120_000,
    "ten thousand keys": HEAD + "".join(f"k{i}: {i}\n" for i in range(9_900)),
    "a value of 200,000 characters": HEAD + "method: " + "x" * 200_000 + "\n",
    "an integer of 200,000 digits": HEAD + "rounds: " + "9" * 200_000 + "\n",
    "a number that takes long to recognise": HEAD + "rounds: " + "1_" * 100_000 + "x\n",
    "a method that takes long to recognise": HEAD + "method: 'krum(" + "a=1," * 40_000 + "'\n",
    "50,000 words": HEAD + "cohort: {kind: listed, rounds: [[" + "a, " * 50_000 + "]]}\n",
    "terminal commands, escaped": 'name: "\\e]0;owned\\a"\ndata: digits\n',
    "a lone surrogate": 'name: "\\ud800"\ndata: digits\n',
    "a call as a kind": (
        "name: x\ndata: digits\nserver: [\"__import__('os').system('touch CANARY')\"]\n"
    ),
    "an inner kind": "name: x\ndata: {kind: '-'}\n",
    "a target as Hydra has it": "name: x\ndata: {_target_: os.system, command: 'touch CANARY'}\n",
    "a call in a method": HEAD + "method: \"krum(f=__import__('os').system('touch CANARY'))\"\n",
    "a tag in a method": HEAD
    + "method: \"krum(f=!!python/object/apply:os.system ['touch CANARY'])\"\n",
    "a shell command as a path": "name: x\ndata: {kind: csv, path: '$(touch CANARY).csv'}\n",
    "a variable as a path": "name: x\ndata: {kind: csv, path: '${HOME}/.bashrc'}\n",
    "a home as a path": "name: x\ndata: {kind: csv, path: ~/.bashrc}\n",
    "an absolute path": "name: x\ndata: {kind: csv, path: /etc/passwd}\n",
    "a device as data": "name: x\ndata: {kind: csv, path: /dev/zero}\n",
    "the environment": "name: x\ndata: {kind: npz, path: /proc/self/environ}\n",
    "a path of 10,000 characters": "name: x\ndata: {kind: npz, path: '" + "a/" * 5_000 + "'}\n",
}


def scenario(name: str, folder: Path) -> Callable[[], Any]:
    (folder / "s.yaml").write_text(TEXTS[name].replace("CANARY", str(canary(folder))))
    return opened(folder / "s.yaml")


attacks("scenario", TEXTS, scenario)


FILES: dict[str, Callable[[Path], Any]] = {
    "fifty megabytes": lambda path: path.write_bytes(b"name: x\n" + b"# filler\n" * 6_000_000),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a pickle": lambda path: path.write_bytes(pickled(path.parent)),
}


def file(name: str, folder: Path) -> Callable[[], Any]:
    FILES[name](folder / "s.yaml")
    return opened(folder / "s.yaml")


attacks("scenario", FILES, file)

EDITS = {
    "a tag": "name=!!python/object/apply:os.system ['touch CANARY']",
    "a dunder": "name.__class__.__init__.__globals__=1",
    "a path": "data={kind: csv, path: /etc/passwd}",
    "an index beyond all": "server[999999999]=mean",
    "an index of another alphabet": "server[²]=mean",
    "a bomb": "server=" + "[" * 100_000,
}


def edit(name: str, folder: Path) -> Callable[[], Any]:
    (folder / "s.yaml").write_text(HEAD + "server: [mean]\n")
    return opened(folder / "s.yaml", EDITS[name].replace("CANARY", str(canary(folder))))


attacks("--set", EDITS, edit)

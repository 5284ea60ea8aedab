"""A stranger's scenario files and `--set` options; a payload would leave its mark at CANARY."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hostile.registry import attack, attacks, canary, opened, pickled

HEAD = "name: x\ndata: digits\n"
TEXTS = {
    "a tag that calls a function": (
        "name: !!python/object/apply:os.system ['touch CANARY']\ndata: digits\n"
    ),
    "a tag that makes an object": (
        "name: x\ndata: !!python/object/new:subprocess.Popen [['touch', 'CANARY']]\n"
    ),
    "a tag in a key": "? !!python/name:os.system\n: 3\n",
    "a tag that imports": "name: !!python/module:antigravity\n",
    "a bomb of aliases": (
        "a: &a [x,x,x,x]\nb: &b [*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b]\nd: [*c,*c,*c,*c]\n"
    ),
    "a list that holds itself": "a: &a [*a]\n",
    "a bomb of brackets": "name: " + "[" * 200_000,
    "a bomb of braces": "name: " + "{a: " * 60_000,
    "a bomb of dashes": "- " * 120_000,
    "a bomb of question marks": "? " * 120_000,
    "ten thousand keys": HEAD + "".join(f"k{i}: {i}\n" for i in range(9_900)),
    "one key of 200,000 characters": HEAD + "k" * 200_000 + ": 1\n",
    "a value of 200,000 characters": HEAD + "method: " + "x" * 200_000 + "\n",
    "an integer of 200,000 digits": HEAD + "rounds: " + "9" * 200_000 + "\n",
    "a number that takes long to recognise": HEAD + "rounds: " + "1_" * 100_000 + "x\n",
    "a method that takes long to recognise": HEAD + "method: 'krum(" + "a=1," * 40_000 + "'\n",
    "50,000 words for numbers": HEAD
    + "cohort: {kind: listed, rounds: [["
    + "a, " * 50_000
    + "]]}\n",
    "a billion seeds": HEAD + "seeds: 1000000000\n",
    "a billion threads": HEAD + "numerics: {threads: 1000000000}\n",
    "terminal commands": "name: x\x1b]0;owned\x07\ndata: digits\n",
    "terminal commands, escaped": 'name: "\\e]0;owned\\a"\ndata: digits\n',
    "a lone surrogate": 'name: "\\ud800"\ndata: digits\n',
    "an import as a kind": "name: x\ndata: {kind: os.system}\n",
    "an entry point as a kind": 'name: x\ndata: {kind: "fedsim.cli:main"}\n',
    "a call as a kind": (
        "name: x\ndata: digits\nserver: [\"__import__('os').system('touch CANARY')\"]\n"
    ),
    "a private name as a kind": "name: x\ndata: {kind: __class__}\n",
    "an inner kind": "name: x\ndata: {kind: '-'}\n",
    "a target as Hydra has it": "name: x\ndata: {_target_: os.system, command: 'touch CANARY'}\n",
    "a call as a method": HEAD + "method: \"__import__('os')\"\n",
    "a call in a method": HEAD + "method: \"krum(f=__import__('os').system('touch CANARY'))\"\n",
    "a tag in a method": HEAD
    + "method: \"krum(f=!!python/object/apply:os.system ['touch CANARY'])\"\n",
    "a formula as a name": 'name: "=cmd|/C calc!A0"\ndata: digits\n',
    "a script as a name": "name: <script>alert(1)</script>\ndata: digits\n",
    "a path as a name": "name: ../../evil\ndata: digits\n",
    "an absolute path as a name": "name: /tmp/evil\ndata: digits\n",
    "a shell command as a path": "name: x\ndata: {kind: csv, path: '$(touch CANARY).csv'}\n",
    "a variable as a path": "name: x\ndata: {kind: csv, path: '${HOME}/.bashrc'}\n",
    "a home as a path": "name: x\ndata: {kind: csv, path: ~/.bashrc}\n",
    "a format string as a path": "name: x\ndata: {kind: csv, path: '{0.__class__}'}\n",
    "a path upwards": "name: x\ndata: {kind: csv, path: ../../../../../../../../etc/passwd}\n",
    "an absolute path": "name: x\ndata: {kind: csv, path: /etc/passwd}\n",
    "a device as data": "name: x\ndata: {kind: csv, path: /dev/zero}\n",
    "the environment": "name: x\ndata: {kind: npz, path: /proc/self/environ}\n",
    "a path with NUL": 'name: x\ndata: {kind: npz, path: "a\\0.npz"}\n',
    "a path of 10,000 characters": "name: x\ndata: {kind: npz, path: '" + "a/" * 5_000 + "'}\n",
    "samples for all memory": "name: x\ndata: {kind: gaussian_blobs, samples: 99999999999999999}\n",
}


def scenario(name: str, folder: Path) -> Callable[[], Any]:
    (folder / "s.yaml").write_text(TEXTS[name].replace("CANARY", str(canary(folder))))
    return opened(folder / "s.yaml")


attacks("scenario", TEXTS, scenario)


@attack("scenario: fifty megabytes")
def _(folder: Path):
    (folder / "s.yaml").write_bytes(b"name: x\n" + b"# filler\n" * 6_000_000)
    return opened(folder / "s.yaml")


@attack("scenario: a pipe")
def _(folder: Path):
    os.mkfifo(folder / "s.yaml")
    return opened(folder / "s.yaml")


@attack("scenario: a device")
def _(folder: Path):
    (folder / "s.yaml").symlink_to("/dev/zero")
    return opened(folder / "s.yaml")


@attack("scenario: a pickle")
def _(folder: Path):
    (folder / "s.yaml").write_bytes(pickled(folder))
    return opened(folder / "s.yaml")


EDITS = {
    "a tag": "name=!!python/object/apply:os.system ['touch CANARY']",
    "a dunder": "name.__class__.__init__.__globals__=1",
    "more keys": "rounds=3\ndata: {kind: csv, path: /etc/passwd}",
    "a path": "data={kind: csv, path: /etc/passwd}",
    "an index beyond all": "server[999999999]=mean",
    "an index of another alphabet": "server[²]=mean",
    "a bomb": "server=" + "[" * 100_000,
}


def edit(name: str, folder: Path) -> Callable[[], Any]:
    (folder / "s.yaml").write_text(HEAD + "server: [mean]\n")
    return opened(folder / "s.yaml", EDITS[name].replace("CANARY", str(canary(folder))))


attacks("--set", EDITS, edit)

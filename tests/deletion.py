"""Delete the folder of a field or a tool, and see whether all the rest works.

python -m tests.deletion                  # each, with the tests that are marked essential
python -m tests.deletion suite            # one of them
python -m tests.deletion suite --whole    # with all fast tests that remain
python -m tests.deletion --bare --whole   # all of them at once
"""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fedsim.scenario.expected import plural_of

ROOT = Path(__file__).parents[1]
IID = "scenarios/iid.yaml"
# How a scenario asks for a kind of a family.
EDITS = {
    "adapter": "model.adapter={}",
    "attack": "wire=[{}]",
    "availability": "fleet.availability={}",
    "client": "client.kind={}",
    "codec": "wire=[{}]",
    "cohort": "cohort={}",
    "data_attack": "data.attack=[{}]",
    "link": "fleet.links={}",
    "loss": "model.loss={}",
    "metric": "evaluate.metrics=[{}]",
    "mechanism": "privacy={{clip: 1, delta: 1e-5, epsilon: 1, mechanism: {}}}",
    "method": "method={}",
    "model": "model.kind={}",
    "rule": "server=[{}]",
    "score": "evaluate.metric={}",
    "skew": "data.skew=[{}]",
    "speed": "fleet.speed={}",
    "stage": "wire=[{}]",
    "timetable": "schedule={}",
    "topology": "topology={}",
}
ESSENTIAL = ["-m", "essential and not long"]


def deletable() -> list[str]:
    """Return the folders that may be taken out, such as `tools/suite`."""
    return sorted(
        f"{room}/{path.name}"
        for room in ("fields", "tools")
        for path in (ROOT / "fedsim" / room).iterdir()
        if (path / "__init__.py").exists()
    )


def copy_without(folders: list[str], place: Path) -> None:
    """Copy the project without some folders, and without the tests beside their names."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    gone = tuple(f"{root}/{folder}/" for folder in folders for root in ("fedsim", "tests"))
    for name in filter(None, files.split("\0")):
        if not name.startswith(gone) and (ROOT / name).exists():
            target = place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)


def faults(folders: list[str], tests: list[str]) -> Iterator[str]:
    """Yield what does not work without some folders.

    Args:
      folders: such as `tools/suite`.
      tests: arguments of pytest for the tests to play.
    """
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        copy_without(folders, place)
        yield from _remnants(folders, place)
        words = [sys.executable, "-m", "pytest", "-q", *tests, "tests"]
        environment = os.environ | {"PYTHONPATH": str(place)}
        done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True)
        if done.returncode:
            lines = (done.stdout + done.stderr).strip().splitlines()
            yield f"pytest: exit code {done.returncode}\n" + "\n".join(lines[-15:])


def _remnants(gone: list[str], place: Path) -> Iterator[str]:
    """What does not work, and what the folders add and is still listed or not refused in a line.

    A kind may need two fields, of which the first that is missing is named.
    """
    tools = [folder for folder in gone if folder.startswith("tools/")]
    commands = [command for folder in tools for command in commands_of(folder)]
    missing = [folder.partition("/")[2] for folder in gone if folder.startswith("fields/")]
    with (ROOT / "fedsim/fields/index.csv").open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["field"] in missing]
    edits = list(_edits(rows))
    run = ["run", IID, "--set", "rounds=3", "--out", str(place / "out")]
    works = [["--help"], ["list", "--json"], ["check", IID], run]
    of_commands = [[command] for command in commands]
    of_edits = [["check", IID, "--set", edit] for edit in edits]
    shown, listed, *ended = _typed(place, [*works, *of_commands, *of_edits])

    for words, (code, _, said) in zip(works[2:], ended, strict=False):
        if code:
            yield f"fedsim {' '.join(words)}: exit code {code}: {said}"
    of_commands, of_edits = ended[2 : 2 + len(commands)], ended[2 + len(commands) :]
    for command, (code, _, said) in zip(commands, of_commands, strict=True):
        if f"  {command} " in shown[1]:
            yield f"fedsim --help still names {command}"
        if code != 2 or command not in said:
            yield f"fedsim {command}: exit code {code}: {said}"
    for edit, (code, _, said) in zip(edits, of_edits, strict=True):
        if code != 2 or not any(f"the field {each} is not installed" in said for each in missing):
            yield f"--set {edit}: exit code {code}: {said}"
    kinds = json.loads(listed[1])
    for row in rows:
        if row["family"] != "key" and row["name"] in kinds.get(plural_of(row["family"]), {}):
            yield f"fedsim list still names {row['name']}"


def _edits(rows: list[dict[str, str]]) -> Iterator[str]:
    """How a scenario asks for the first kind of each family, and the first key, of each field."""
    firsts = {(row["field"], row["family"]): row["name"] for row in reversed(rows)}
    for (_, family), name in firsts.items():
        if family != "need":  # a scenario cannot write it
            yield f"{name}=1" if family == "key" else EDITS[family].format(name)


TYPED = """
import contextlib, io, json, sys
from fedsim.cli import main

ended = []
for words in json.load(sys.stdin):
    printed, said, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
        try:
            main(words)
        except SystemExit as end:
            code = end.code or 0
    ended.append((code, printed.getvalue(), said.getvalue()))
json.dump(ended, sys.stdout)
"""


def _typed(place: Path, lines: list[list[str]]) -> list[tuple[int, str, str]]:
    """Exit code, stdout and stderr of commands that are typed one after another, in one process."""
    words = [sys.executable, "-c", TYPED]
    environment = os.environ | {"PYTHONPATH": str(place)}
    options = {"cwd": place, "env": environment, "capture_output": True, "text": True}
    done = subprocess.run(words, input=json.dumps(lines), **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def commands_of(folder: str) -> list[str]:
    """Return the commands that a folder adds."""
    from fedsim.installed import tools

    headings = getattr(tools()[folder.partition("/")[2]], "COMMANDS", {})
    return [command for commands in headings.values() for command in commands]


def main(words: list[str]) -> int:
    """Print what does not work without each of the folders that are named; by default of all."""
    tests = ["-m", "not long"] if "--whole" in words else ESSENTIAL
    named = [word for word in words if not word.startswith("-")]
    chosen = [path for path in deletable() if not named or path.partition("/")[2] in named]
    failed = 0
    for folders in [chosen] if "--bare" in words else [[folder] for folder in chosen]:
        found = list(faults(folders, tests))
        failed += bool(found)
        said = "works without it" if not found else ""
        print(f"{', '.join(folders)}: {said}", *found, sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

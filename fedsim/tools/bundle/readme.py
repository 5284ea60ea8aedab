"""The README of a bundle, which says how to repeat its runs, and the versions to install."""

from collections.abc import Sequence

from fedsim.disk.files import readable_size
from fedsim.runs.unfinished import is_comparison
from fedsim.tools.bundle.crate import LeftOut, Packed, PackedRun

DISTRIBUTION = "fedsim-jax"  # the name on PyPI
PACKAGES = ("jax", "jaxlib", "numpy", "optax")

HEAD = """\
# Runs of fedsim, and what repeats them

| folder | |
|---|---|
| `runs` | tables, page (`report.html`) and record of every run |
| `scenarios` | what was run: every default filled in, and as it was written |
| `data` | the data files, as far as they are small |
| `plugins` | code of the authors that the runs need |

## Repeat them

This needs Python {python} and nothing else:

```sh
python -m venv venv
venv/bin/pip install -r requirements.txt
venv/bin/fedsim check --against .{plugins}
```

The command runs every scenario again and compares: bit by bit on the same kind of machine with the
same versions, else by tests of the paired seeds. It ends with 0 where nothing differs, with 7 where
something does, and with 2 where that cannot be told.

To look at one run alone, or to change it:

```sh
{commands}
```
"""
CODE = """
## Code in here

Nothing in this folder is executed unless you give it with `--plugin`. Read these files before:
{files}
"""


def readme_of(
    runs: Sequence[PackedRun], packed: Sequence[Packed], left_out: Sequence[LeftOut]
) -> str:
    """The text of `README.md`.

    Args:
      runs: the runs of the bundle.
      packed: its files.
      left_out: what is not in it.
    """
    plugins = [file for file in packed if file.name.startswith("plugins/")]
    options = "".join(f" --plugin {file.name}" for file in plugins)
    commands = []
    for run in runs:
        command = "compare" if is_comparison(run.record) else "run"
        scenario = f"scenarios/{run.name}.yaml"
        commands.append(f"venv/bin/fedsim {command} {scenario}{options} --out again/{run.name}")

    versions = [str(run.record["surroundings"].get("python", "3")) for run in runs]
    python = " or ".join(dict.fromkeys(".".join(v.split(".")[:2]) for v in versions))
    text = HEAD.format(python=python, plugins=options, commands="\n".join(commands))
    if plugins:
        listed = [f"- `{file.name}`: {file.what}" for file in plugins]
        text += CODE.format(files="\n".join(listed))
    notes = [*_forks(runs), *_supplied(runs), *map(line_of, left_out)]
    if notes:
        text += "\n## Not in here\n\n" + "".join(f"- {note}\n" for note in notes)
    return text


def requirements_of(runs: Sequence[PackedRun]) -> str:
    """The text of `requirements.txt`: the versions that the first run was made with."""
    environment = runs[0].record["environment"]
    lines = [f"{DISTRIBUTION}=={environment.get('fedsim')}"]
    for package in PACKAGES:
        if package in environment:
            lines.append(f"{package}=={environment[package]}")
    return "".join(f"{line}\n" for line in lines)


def line_of(item: LeftOut) -> str:
    """What is left out, in a line."""
    text = f"{item.name}: {item.why}"
    if item.size is not None:
        text += f", {readable_size(item.size)}"
    return f"{text}, SHA-256 {item.sha256}" if item.sha256 else text


def _forks(runs: Sequence[PackedRun]) -> list[str]:
    """A line for every run that goes on from another one."""
    lines = []
    for run in runs:
        fork = run.record.get("fork")
        if fork is not None:
            lines.append(
                f"the start of {run.name}, a fork after round {fork['round']} of the run with the "
                f"scenario {fork['scenario']}: fedsim fork repeats it from that run"
            )
    return lines


def _supplied(runs: Sequence[PackedRun]) -> list[str]:
    """A line for every run that was given something by a Python program."""
    lines = []
    for run in runs:
        if run.record["supplied"]:
            what = ", ".join(run.record["supplied"])
            lines.append(f"{what} of {run.name}, which came from a Python program")
    return lines

"""The README of a bundle, which says how to repeat its runs, and the versions to install."""

from collections.abc import Mapping
from typing import Any

from fedsim.disk.files import readable_size
from fedsim.runs.environment import PACKAGES
from fedsim.runs.unfinished import is_comparison
from fedsim.tools.bundle.crate import Contents, LeftOut

DISTRIBUTION = "fedsim-jax"  # the name on PyPI

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
venv/bin/fedsim verify --against .{plugins}
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


def readme_of(records: Mapping[str, Mapping[str, Any]], contents: Contents) -> str:
    """The text of `README.md`."""
    plugins = [file for name, file in contents.files.items() if name.startswith("plugins/")]
    options = "".join(f" --plugin {file.name}" for file in plugins)
    commands = []
    versions = []
    notes = []
    for name, record in records.items():
        command = "compare" if is_comparison(record) else "run"
        scenario = f"scenarios/{name}.yaml"
        commands.append(f"venv/bin/fedsim {command} {scenario}{options} --out again/{name}")
        versions.append(".".join(record["surroundings"]["python"].split(".")[:2]))
        if "fork" in record:
            fork = record["fork"]
            notes.append(
                f"the start of {name}, a fork after round {fork['round']} of the run with the "
                f"scenario {fork['scenario']}: fedsim fork repeats it from that run"
            )
        if record["supplied"]:
            what = ", ".join(record["supplied"])
            notes.append(f"{what} of {name}, which came from a Python program")

    python = " or ".join(dict.fromkeys(versions))
    text = HEAD.format(python=python, plugins=options, commands="\n".join(commands))
    if plugins:
        listed = [f"- `{file.name}`: {file.what}" for file in plugins]
        text += CODE.format(files="\n".join(listed))
    notes += map(line_of, contents.left_out)
    if notes:
        text += "\n## Not in here\n\n" + "".join(f"- {note}\n" for note in notes)
    return text


def requirements_of(record: Mapping[str, Any]) -> str:
    """The text of `requirements.txt`: the versions that a run was made with."""
    environment = record["environment"]
    lines = [f"{DISTRIBUTION}=={environment['fedsim']}\n"]
    for package in PACKAGES:
        if package in environment:
            lines.append(f"{package}=={environment[package]}\n")
    return "".join(lines)


def line_of(item: LeftOut) -> str:
    """What is left out, in a line."""
    text = f"{item.name}: {item.why}"
    if item.size is not None:
        text += f", {readable_size(item.size)}"
    return f"{text}, SHA-256 {item.sha256}" if item.sha256 else text

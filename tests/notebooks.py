"""The notebooks in docs/notebooks: executed and stored again, or compared with what is stored.

python -m tests.notebooks                      # execute all whose packages are here, and store them
python -m tests.notebooks first_run            # only this one
python -m tests.notebooks --check first_run    # execute it, compare what it shows, store nothing
"""

import argparse
import importlib.util
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
SECONDS = 300  # that a cell may take, and the start of a kernel
# Which Python executed a notebook is no part of what it shows.
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
NEEDS = {"from_torch": "torch"}  # what is not in the extras that all tests have
TOLERANCE = 0.03  # between machines, whose sums are rounded in other orders


def names() -> list[str]:
    """The names of all notebooks."""
    return sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def executable() -> list[str]:
    """The names of those whose packages are installed."""
    return [name for name in names() if name not in NEEDS or importlib.util.find_spec(NEEDS[name])]


def stored(name: str) -> Any:
    """A notebook as it is stored."""
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


def executed(name: str) -> Any:
    """A notebook with new outputs, from a new kernel of this Python.

    Raises:
      nbclient.exceptions.CellExecutionError: for a cell that fails and has no tag
        `raises-exception`.
    """
    import nbformat
    from nbconvert.preprocessors import ExecutePreprocessor

    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    player = ExecutePreprocessor(
        timeout=SECONDS, startup_timeout=SECONDS, kernel_name="python3", record_timing=False
    )
    player.preprocess(notebook, {"metadata": {"path": str(FOLDER)}})
    for cell in code_cells(notebook):
        cell["outputs"] = [output for output in cell["outputs"] if not _is_empty(output)]
    notebook["metadata"] = nbformat.from_dict(METADATA)
    return json.loads(nbformat.writes(notebook))


def code_cells(notebook: Any) -> list[Any]:
    """The cells of a notebook that are executed."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _is_empty(output: Any) -> bool:
    """Whether an output shows nothing, as the line of progress of runs that have ended."""
    return output["output_type"] == "display_data" and not any(output["data"].values())


def texts(notebook: Any) -> list[str]:
    """What every code cell prints, shows as text, or fails with."""
    return ["\n".join(map(text_of, cell["outputs"])) for cell in code_cells(notebook)]


def text_of(output: Any) -> str:
    """An output as text; of pictures and HTML only that they are there."""
    if output["output_type"] == "stream":
        return f"{output['name']}: {''.join(output['text'])}"
    if output["output_type"] == "error":
        return "\n".join(output["traceback"])
    data = output["data"]
    return "\n".join([*sorted(data), "".join(data.get("text/plain", []))])


def store(name: str, notebook: Any) -> None:
    """Write a notebook as Jupyter does."""
    text = json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False)
    (FOLDER / f"{name}.ipynb").write_text(f"{text}\n", encoding="utf-8")


def alike(text: str, other: str) -> bool:
    """Whether two texts differ at most in numbers, and these by no more than machines do.

    >>> alike("final  0.93", "final  0.94"), alike("final  0.93", "best  0.93")
    (True, False)
    """
    # Columns are as wide as their longest number.
    words = [re.split(r"\s+", NUMBER.sub("#", each).strip()) for each in (text, other)]
    if words[0] != words[1]:
        return False
    numbers = zip(NUMBER.findall(text), NUMBER.findall(other), strict=True)
    return all(abs(float(a) - float(b)) <= TOLERANCE for a, b in numbers)


def differences(name: str) -> list[str]:
    """The code cells whose texts are not the stored ones when they are executed again."""
    found = []
    before = texts(stored(name))
    after = texts(executed(name))
    for number, (text, other) in enumerate(zip(before, after, strict=True), 1):
        if not alike(text, other):
            found.append(f"{name}, code cell {number}: stored\n{text}\nnow\n{other}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Store or check notebooks; the exit code is 1 where one is not what is stored."""
    parser = argparse.ArgumentParser(prog="python -m tests.notebooks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names())}")
    parser.add_argument("--check", action="store_true", help="compare, and store nothing")
    options = parser.parse_args(arguments)

    os.environ.setdefault("NPROC", "4")  # the size of XLA's thread pool, as in all tests
    found = []
    for name in options.names or executable():
        if options.check:
            found += differences(name)
        else:
            store(name, executed(name))
            print(FOLDER / f"{name}.ipynb")
    for text in found:
        print(text, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

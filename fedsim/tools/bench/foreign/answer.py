"""Tells how long a library takes, in a Python that has it: a line of JSON for every line asked.

    python answer.py torch_rules

| asked | answered |
|---|---|
| `{"rows": 100, "columns": 1000}`: rows to draw, which works then go over | `{"names": [...]}` |
| `{"name": "median", "calls": 3}` | `{"seconds": 0.1}`: of a call, the mean of three |

Needs NumPy and what the module imports, nothing of fedsim.
"""

import importlib
import json
import os
import sys
import time

import numpy as np


def main(module):
    """Answer until nothing more is asked.

    Args:
      module: name of a module beside this file, whose `works(x)` takes rows `[K, D]` and returns
        functions without arguments by name.
    """
    # Whatever libraries print goes to stderr, so that answers stay alone.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    works_on = importlib.import_module(module).works
    works = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if "rows" in asked:
            works.clear()  # and with them the rows before
            works = works_on(drawn(asked["rows"], asked["columns"]))
            answer = {"names": list(works)}
        else:
            answer = {"seconds": seconds(works[asked["name"]], asked["calls"])}
        print(json.dumps(answer), file=answers, flush=True)


def drawn(rows, columns):
    """Draw the same rows as fedsim does."""
    return np.random.default_rng(0).standard_normal((rows, columns), np.float32)


def seconds(work, calls):
    """Return the mean seconds of a call."""
    begin = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - begin) / calls


if __name__ == "__main__":
    main(sys.argv[1])

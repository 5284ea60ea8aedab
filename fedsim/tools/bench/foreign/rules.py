"""Tells how long the rules of a library take, in a Python that has it: one line of JSON, by name.

    python rules.py torch_rules ROWS COLUMNS CALLS

Seconds are of a call, the mean of some; the first call is not measured. Needs NumPy and what the
module imports, nothing of fedsim.
"""

import importlib
import json
import os
import sys
import time

import numpy as np


def seconds(work, calls):
    """Return the mean seconds of a call."""
    work()
    begin = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - begin) / calls


if __name__ == "__main__":
    module = sys.argv[1]
    rows, columns, calls = map(int, sys.argv[2:])

    # Whatever libraries print goes to stderr, so that the answer stays alone.
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    drawn = np.random.default_rng(0).standard_normal((rows, columns), np.float32)  # as fedsim does
    works = importlib.import_module(module).works(drawn)
    print(json.dumps({name: seconds(work, calls) for name, work in works.items()}), file=answer)

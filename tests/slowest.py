"""The slowest tests of the last runs, with what each asserts and how many known bugs it catches.

python -m tests.slowest        # the 30 slowest cases
python -m tests.slowest 100    # the 100 slowest
"""

import ast
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DURATIONS = ROOT / ".pytest_cache" / "durations.json"  # written by conftest.py
COUNT = 30


def report(count: int = COUNT) -> str:
    """Return two lines for each of the slowest cases: seconds, share, name; what it is worth."""
    if not DURATIONS.exists():
        return "no test was run yet: python -m pytest -q -n 2"
    durations: dict[str, float] = json.loads(DURATIONS.read_text())
    total = sum(durations.values())
    slowest = sorted(durations.items(), key=lambda case: -case[1])[:count]
    share = _sum(slowest) / total
    lines = [
        f"{len(durations):,} cases, {total:.0f} s; the {len(slowest)} slowest take {share:.0%}"
    ]
    for case, seconds in slowest:
        lines.append(f"{seconds:7.2f} s  {seconds / total:5.1%}  {case}")
        lines.append(f"                   {worth(case)}")
    return "\n".join(lines)


def worth(case: str) -> str:
    """Return the docstring of a test, or of its file, and the number of its bugs in MUTANTS.md."""
    path, _, name = case.partition("::")
    function = name.partition("[")[0]
    module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    text = (
        (function in functions and ast.get_docstring(functions[function]))
        or ast.get_docstring(module)
        or ""
    )
    caught = _bugs_caught(f"{Path(path).name}::{name}")
    bugs = f" Catches {caught} bugs of other frameworks." if caught else ""
    return text.partition("\n")[0] + bugs


def _bugs_caught(test: str) -> int:
    text = (ROOT / "tests" / "MUTANTS.md").read_text(encoding="utf-8")
    return sum(test in line for line in text.split("\n"))


def _sum(cases: list[tuple[str, float]]) -> float:
    return sum(seconds for _, seconds in cases)


if __name__ == "__main__":
    print(report(*map(int, sys.argv[1:])))

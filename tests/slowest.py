"""The slowest tests of the last runs, each with what it is worth: what it holds, and which bugs of others only it caught.

python -m tests.slowest        # the 30 slowest cases
python -m tests.slowest 100    # so many
"""

import ast
import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DURATIONS = ROOT / ".pytest_cache" / "durations.json"  # written by conftest.py
COUNT = 30


def report(count: int = COUNT) -> str:
    """A line for each of the slowest cases: its seconds, its share of all, its name, what it is worth."""
    if not DURATIONS.exists():
        return "no test was run yet: python -m pytest -q -n 2"
    durations: dict[str, float] = json.loads(DURATIONS.read_text())
    total = sum(durations.values())
    slowest = sorted(durations.items(), key=lambda case: -case[1])[:count]
    lines = [
        f"{len(durations):,} cases, {total:.0f} s; the {len(slowest)} slowest take {_sum(slowest) / total:.0%}"
    ]
    for case, seconds in slowest:
        lines.append(f"{seconds:7.2f} s  {seconds / total:5.1%}  {case}")
        lines.append(f"                   {worth(case)}")
    return "\n".join(lines)


def worth(case: str) -> str:
    """What a test holds, in the words of its docstring, or of its file; and the bugs that MUTANTS.md says it catches."""
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

"""Row 24: small faults in comparisons, arithmetic, constants, branches and returns; who notices.

Each mutant is tried in a copy of the tree, by the fast tests of its group. Mutants that change no
result are in `equivalent.json`, each read by hand; those that survived are in `survivors.json`.
"""

import ast
import hashlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from trust import ROOT
from trust.table import Figure

HERE = Path(__file__).parent
GROUPS = {
    "rules agnostic centered_clipping dyn fedadam fedavgm fedexp geometric_median horvitz_thompson "
    "krum mean mean_over_all median nova q_fair sorting trimmed_mean": "tests/rules tests/clients",
    "disk checkpoint rowfile files": "tests/runs",
    "runs commits journal": "tests/runs",
    "study statistics pairing standings breakdown": "tests/study tests/runs/test_compare.py",
    "fleet local_work plan selection synchronous": (
        "tests/fleet tests/engine tests/data tests/rules/test_absent.py"
    ),
}
"""A folder of fedsim and modules in it -> the tests that concern them."""
OTHER: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.USub: ast.UAdd,
}  # fmt: skip
COUNT, SECONDS = 200, 600


class Mutant(NamedTuple):
    """A changed module: its path, the change in words, the new source, the tests."""

    path: str
    change: str
    source: str
    tests: str

    @property
    def name(self) -> str:
        """Its name in the lists of those that are equivalent, and of those that survived."""
        return f"{self.path}: {self.change}"


def changes(tree: ast.AST) -> Iterator[tuple[Any, str, Any]]:
    """Yield node, field and new value; annotations, decorators and messages stay as they are."""
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr | ast.Raise):
            skipped |= set(ast.walk(node))
        for field in ("annotation", "returns", "decorator_list"):
            value = getattr(node, field, None) or []
            for part in value if isinstance(value, list) else [value]:
                skipped |= set(ast.walk(part))
    for node in ast.walk(tree):
        if node in skipped:
            continue
        match node:
            case ast.Compare(ops=[op]) if type(op) in OTHER:
                yield node, "ops", [OTHER[type(op)]()]
            case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OTHER:
                yield node, "op", OTHER[type(op)]()
            case ast.BoolOp(op=op) | ast.UnaryOp(op=ast.USub() as op):
                yield node, "op", OTHER[type(op)]()
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield node, "test", ast.UnaryOp(ast.Not(), test)
            case ast.Constant(value=bool(value)):
                yield node, "value", not value
            case ast.Constant(value=int(value) | float(value)):
                yield node, "value", value + 1
            case ast.Return(value=ast.Constant(value=None)):
                continue
            case ast.Return(value=ast.expr()):
                yield node, "value", ast.Constant(None)


def mutants() -> Iterator[Mutant]:
    """Every mutant of every module."""
    for names, tests in GROUPS.items():
        folder, *modules = names.split()
        for module in modules:
            path = f"{folder}/{module}.py"
            text = (ROOT / "fedsim" / path).read_text()
            for number in range(len(list(changes(ast.parse(text))))):
                tree = ast.parse(text)
                node, field, value = list(changes(tree))[number]
                before = ast.unparse(node).splitlines()[0][:60]
                setattr(node, field, value)
                after = ast.unparse(ast.fix_missing_locations(node)).splitlines()[0][:60]
                shown = text.splitlines()[node.lineno - 1].strip()[:80]
                change = f"{before} -> {after} in `{shown}`"
                yield Mutant(path, change, ast.unparse(tree), tests)


def digest(mutant: Mutant) -> bytes:
    """The hash of its name; the sample has the smallest ones."""
    return hashlib.sha256(mutant.name.encode()).digest()


def score(quick: bool) -> Figure:
    """Try a random sample, which stays the same for modules that do not change."""
    every = list(mutants())
    chosen = sorted(every, key=digest)[: 4 if quick else COUNT]
    equivalent = json.loads((HERE / "equivalent.json").read_text())
    tried = [mutant for mutant in chosen if mutant.name not in equivalent]
    same = len(chosen) - len(tried)
    with tempfile.TemporaryDirectory() as place:
        copies: queue.Queue[Path] = queue.Queue()
        for number in range(os.cpu_count() or 1):
            copy = Path(place) / str(number)
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*"))
            copies.put(copy)
        with ThreadPoolExecutor(copies.qsize()) as pool:
            survived = list(pool.map(lambda mutant: survives(mutant, copies), tried))
    survivors = [mutant.name for mutant, it in zip(tried, survived, strict=True) if it]
    if not quick:
        (HERE / "survivors.json").write_text(json.dumps(survivors, indent=1) + "\n")
    share = 1 - len(survivors) / len(tried)
    text = (
        f"{len(tried) - len(survivors)} of {len(tried)} mutants killed ({share:.1%}), a fixed "
        f"random sample of {len(every):,} over rules, persistence, statistics and plan, by fast "
        "tests; those that survived are in tests/trust/survivors.json; "
        f"{same} more change no result, with the reason of each in tests/trust/equivalent.json"
    )
    return Figure(text, share >= 0.85)


def survives(mutant: Mutant, copies: queue.Queue[Path]) -> bool:
    """Whether no test fails with this mutant in a copy of the tree that is free."""
    copy = copies.get()
    path = copy / "fedsim" / mutant.path
    sound = path.read_text()
    path.write_text(mutant.source)
    command = [sys.executable, "-m", "pytest", "-x", "-q", *mutant.tests.split()]
    if mutant.path.startswith("rules/"):
        command += ["-k", f"{path.stem} or limits or sorting"]
    try:
        done = subprocess.run(command, cwd=copy, capture_output=True, timeout=SECONDS)
        return done.returncode == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        path.write_text(sound)
        copies.put(copy)

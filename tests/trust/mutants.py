"""Small faults in a module's source: in comparisons, arithmetic, constants, branches, returns."""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trust import ROOT

MODULES = {
    "rules": (
        "rules/agnostic", "rules/centered_clipping", "rules/dyn", "rules/fedadam", "rules/fedavgm",
        "rules/fedexp", "rules/geometric_median", "rules/horvitz_thompson", "rules/krum",
        "rules/mean", "rules/mean_over_all", "rules/median", "rules/nova", "rules/q_fair",
        "rules/sorting", "rules/trimmed_mean",
    ),
    "persistence": (
        "disk/checkpoint", "disk/rowfile", "runs/commits", "runs/journal", "disk/files",
    ),
    "statistics": ("study/statistics", "study/pairing", "study/standings", "study/breakdown"),
    "plan": ("fleet/local_work", "fleet/plan", "fleet/selection", "fleet/synchronous"),
}  # fmt: skip
COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip


class Mutant(NamedTuple):
    """A changed module.

    Attributes:
      module: path below `fedsim`, without its suffix.
      line: the line of the change.
      change: the node before and after, and the line.
      source: the source of the changed module.
    """

    module: str
    line: int
    change: str
    source: str


def path_of(module: str) -> Path:
    return ROOT / "fedsim" / f"{module}.py"


def sites(tree: ast.AST) -> Iterator[tuple[ast.AST, list]]:
    """Yield nodes and their changes; annotations, decorators and messages are not changed."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            outside = [
                *node.decorator_list,
                node.returns,
                *(a.annotation for a in _arguments(node.args)),
            ]
            skipped |= {
                id(inner) for outer in outside if outer is not None for inner in ast.walk(outer)
            }
        elif isinstance(node, ast.AnnAssign):
            skipped |= {id(inner) for inner in ast.walk(node.annotation)}
        elif isinstance(node, ast.JoinedStr | ast.Raise):
            skipped |= {id(inner) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) not in skipped and (changes := _changes(node)):
            yield node, changes


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    starred = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *starred]


def _changes(node: ast.AST) -> list:
    """Return the functions that change a node in place."""
    changes: list = []
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARED:
        changes.append(lambda n: setattr(n, "ops", [COMPARED[type(n.ops[0])]()]))
    if isinstance(node, ast.BinOp) and type(node.op) in COMPUTED and not _text(node):
        changes.append(lambda n: setattr(n, "op", COMPUTED[type(n.op)]()))
    if isinstance(node, ast.AugAssign) and type(node.op) in COMPUTED:
        changes.append(lambda n: setattr(n, "op", COMPUTED[type(n.op)]()))
    if isinstance(node, ast.BoolOp):
        changes.append(
            lambda n: setattr(n, "op", ast.Or() if isinstance(n.op, ast.And) else ast.And())
        )
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        changes.append(lambda n: setattr(n, "test", ast.UnaryOp(ast.Not(), n.test)))
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        changes.append(lambda n: setattr(n, "value", not n.value))
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        changes.append(lambda n: setattr(n, "value", n.value + 1))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        changes.append(_positive)
    if isinstance(node, ast.Return) and node.value is not None and not _none(node.value):
        changes.append(lambda n: setattr(n, "value", ast.Constant(None)))
    return changes


def _positive(node: ast.UnaryOp) -> None:
    """Change -x to x, and `not x` to `not not x`."""
    if isinstance(node.op, ast.USub):
        node.op = ast.UAdd()
    else:
        node.operand = ast.UnaryOp(ast.Not(), node.operand)


def _text(node: ast.BinOp) -> bool:
    """Whether an operand is a text."""
    return any(_is_text(side) for side in (node.left, node.right))


def _is_text(node: ast.AST) -> bool:
    is_constant = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    return isinstance(node, ast.JoinedStr) or is_constant


def _none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def choices(module: str) -> list[tuple[int, int]]:
    """Return (number of the site, number of the change) of all mutants of a module."""
    numbered = enumerate(sites(ast.parse(path_of(module).read_text())))
    return [(number, choice) for number, (_, changes) in numbered for choice in range(len(changes))]


def mutant(module: str, number: int, choice: int) -> Mutant:
    """Return one of the mutants of a module."""
    text = path_of(module).read_text()
    tree = ast.parse(text)
    node, changes = list(sites(tree))[number]
    before = ast.unparse(node).splitlines()[0]
    changes[choice](node)
    after = ast.unparse(ast.fix_missing_locations(node)).splitlines()[0]
    line = node.lineno  # type: ignore[attr-defined]
    shown = text.splitlines()[line - 1].strip()[:80]
    return Mutant(module, line, f"{before[:60]} -> {after[:60]} in `{shown}`", ast.unparse(tree))


def everything() -> list[tuple[str, int, int]]:
    """Return the arguments of `mutant` for all mutants of all modules."""
    return [
        (module, *choice)
        for modules in MODULES.values()
        for module in modules
        for choice in choices(module)
    ]


def sample(count: int, seed: int = 24) -> list[Mutant]:
    """Return a fixed random sample over all modules, in order.

    Mutants are drawn by a hash of the change: an edit of a line does not affect the draw of others.
    """
    seen: Counter[tuple[str, str]] = Counter()
    drawn = []
    for number, arguments in enumerate(everything()):
        made = mutant(*arguments)
        # equal changes of equal lines are distinguished by their order
        seen[made.module, made.change] += 1
        name = f"{seed} {made.module} {made.change} {seen[made.module, made.change]}"
        drawn.append((hashlib.sha256(name.encode()).hexdigest(), number, made))
    return [made for _, made in sorted((number, made) for _, number, made in sorted(drawn)[:count])]

"""Small faults put into a module's source, one at a time: what is compared, computed, counted, decided and returned."""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from trust import ROOT

MODULES = {
    "rules": (
        "rules/agnostic", "rules/centered_clipping", "rules/dyn", "rules/fedadam", "rules/fedavgm", "rules/fedexp",
        "rules/geometric_median", "rules/horvitz_thompson", "rules/krum", "rules/mean", "rules/mean_over_all",
        "rules/median", "rules/nova", "rules/q_fair", "rules/sorting", "rules/trimmed_mean",
    ),
    "persistence": ("disk/checkpoint", "disk/rowfile", "runs/commits", "runs/journal", "disk/files"),
    "statistics": ("study/statistics", "study/pairing", "study/standings", "study/breakdown"),
    "plan": ("fleet/plan", "fleet/selection"),
}  # fmt: skip
COMPARED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult,
    ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}  # fmt: skip


class Mutant(NamedTuple):
    """A changed module.

    Attributes:
      module: path below `fedsim`, without its ending.
      line: of the change.
      change: the line before, and how the changed node reads.
      source: of the whole module, changed.
    """

    module: str
    line: int
    change: str
    source: str


def path_of(module: str) -> Path:
    return ROOT / "fedsim" / f"{module}.py"


def sites(tree: ast.AST) -> Iterator[tuple[ast.AST, list]]:
    """Nodes that can be changed, each with its changes; annotations, decorators and messages are left alone."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            outside = [
                *node.decorator_list,
                node.returns,
                *(a.annotation for a in _arguments(node.args)),
            ]
            skipped |= {
                id(inner) for part in outside if part is not None for inner in ast.walk(part)
            }
        elif isinstance(node, ast.AnnAssign):
            skipped |= {id(inner) for inner in ast.walk(node.annotation)}
        elif isinstance(node, ast.JoinedStr | ast.Raise):
            skipped |= {id(inner) for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) not in skipped and (changes := _changes(node)):
            yield node, changes


def _arguments(arguments: ast.arguments) -> list[ast.arg]:
    more = [a for a in (arguments.vararg, arguments.kwarg) if a is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *more]


def _changes(node: ast.AST) -> list:
    """What may become of a node: functions that change it in place, or give what stands there instead."""
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
    """-x becomes x, and `not x` becomes `not not x`."""
    if isinstance(node.op, ast.USub):
        node.op = ast.UAdd()
    else:
        node.operand = ast.UnaryOp(ast.Not(), node.operand)


def _text(node: ast.BinOp) -> bool:
    """Whether it is the composition of a text."""
    return any(isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
               for side in (node.left, node.right))  # fmt: skip


def _none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def places(module: str) -> list[tuple[int, int]]:
    """(number of the site, number of the change) of all mutants of a module."""
    numbered = enumerate(sites(ast.parse(path_of(module).read_text())))
    return [(number, choice) for number, (_, changes) in numbered for choice in range(len(changes))]


def mutant(module: str, number: int, choice: int) -> Mutant:
    """One of them."""
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
    """All mutants of all modules, unmade."""
    return [
        (module, *place)
        for modules in MODULES.values()
        for module in modules
        for place in places(module)
    ]


def sample(count: int, seed: int = 24) -> list[Mutant]:
    """A fixed random sample over all modules, in their order.

    Each mutant is drawn by a hash of what it changes: an edit of a line leaves all others in the sample, or out of it.
    """
    seen: Counter[tuple[str, str]] = Counter()
    drawn = []
    for number, place in enumerate(everything()):
        made = mutant(*place)
        seen[made.module, made.change] += (
            1  # equal changes of equal lines are told apart by their order
        )
        name = f"{seed} {made.module} {made.change} {seen[made.module, made.change]}"
        drawn.append((hashlib.sha256(name.encode()).hexdigest(), number, made))
    return [made for _, made in sorted((number, made) for _, number, made in sorted(drawn)[:count])]

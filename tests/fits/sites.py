"""Where the check refuses a scenario, and which of these places a scenario reaches."""

import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import fedsim.assemble
from tests.fits.combinations import refusal

FOLDER = Path(fedsim.assemble.__file__).parent
FIELDS = FOLDER.with_name("fields")
# Modules that check arguments of functions of Python, or files, and not a scenario.
OTHERS = {"accounting", "data_files", "samples", "stack_inputs", "stacks", "standalone", "weights"}
OTHERS |= {"graphs.network", "graphs.partition", "privacy.accounting"}
OTHERS |= {"traits"}  # whose conflicts are told by their nouns
REFUSALS = {"error", "too_large", "PrivacyError", "TopologyError"}


class Site(NamedTuple):
    """A statement that refuses."""

    function: str  # `module.function`
    number: int  # of the function's, from 1


def sites() -> dict[tuple[str, int], Site]:
    """Return (file, line) -> the statement that refuses there."""
    found = {}
    for file in [*sorted(FOLDER.glob("*.py")), *sorted(FIELDS.glob("*/*.py"))]:
        if module_of(file) in OTHERS:
            continue
        tree = ast.parse(file.read_text())
        for function in filter(lambda node: isinstance(node, ast.FunctionDef), ast.walk(tree)):
            statements = sorted(_refusals(function), key=lambda node: node.lineno)
            for number, node in enumerate(statements, 1):
                name = f"{module_of(file)}.{function.name}"
                found[str(file), node.lineno] = Site(name, number)
    return found


def module_of(file: Path) -> str:
    """Return `feasibility` of a module of `fedsim.assemble`, `graphs.checks` of one of a field."""
    if file.parent == FOLDER:
        return file.stem
    return ".".join(file.relative_to(FIELDS).with_suffix("").parts)


def _refusals(function: Any) -> Iterator[ast.AST]:
    """The statements of a function that refuse: `yield PATH, TEXT`, and `raise` of an error."""
    returns = ast.unparse(function.returns) if function.returns else ""
    for node in ast.walk(function):
        if isinstance(node, ast.Yield) and returns in ("Findings", "Iterator[str]"):
            yield node
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            if ast.unparse(node.exc.func).split(".")[-1] in REFUSALS:
                yield node


@functools.cache
def _refusing() -> set[tuple[str, str]]:
    """The functions with a statement that refuses, as (file, name)."""
    return {(file, site.function.rpartition(".")[2]) for (file, _), site in sites().items()}


def reached(values: dict[str, Any]) -> tuple[Exception | None, set[tuple[str, int]]]:
    """Return the refusal of a scenario, and (file, line) of what ran in `fedsim.assemble`."""
    lines = set()
    refusing = _refusing()

    def trace_lines(frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return trace_lines

    def trace_calls(frame: Any, event: str, argument: Any) -> Any:
        code = frame.f_code
        return trace_lines if (code.co_filename, code.co_name) in refusing else None

    before = sys.gettrace()
    sys.settrace(trace_calls)
    try:
        return refusal(values), lines
    finally:
        sys.settrace(before)

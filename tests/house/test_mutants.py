"""Bugs of public frameworks, put into fedsim: for every bug, one of our tests must fail.

`oracles/mutants.json` lists them. `MUTANTS.md` says which test catches which:
`PYTHONPATH=tests python tests/house/test_mutants.py` writes it.
"""

import importlib
import inspect
import json
import re

import pytest
from conftest import TESTS
from mutants import CODECS, MORE, OPTIMISERS, ROBUST

from fedsim.assemble import programs
from fedsim.engine.server import Server
from fedsim.kinds import FAMILIES, names

pytestmark = pytest.mark.usefixtures("quickly_compiled")

HERE = TESTS
TABLE = HERE / "MUTANTS.md"
ABOUT = """# Bugs that the tests catch

Bugs that public frameworks have or had: those in `oracles/mutants.json`, then others. When a bug is
put into the module of fedsim where it would occur, the tests in its row fail. `test_mutants.py`
checks this for every row and writes this table
(`PYTHONPATH=tests python tests/house/test_mutants.py`).
"""
BUGS = {
    bug["mutant"]: bug["seen_in"]
    for bug in json.loads((HERE / "oracles" / "mutants.json").read_text())
}
BUGS |= {mutant.bug: mutant.seen_in for mutant in MORE}
MUTANTS = [*OPTIMISERS, *ROBUST, *CODECS, *MORE]
SLOW = {"rules/bulyan.py", "trimmed mean = n-f-1 nearest to median"}  # seconds to compile
SHORT = [m for m in MUTANTS if m not in MORE and not {m.module, m.bug} & SLOW][::3]
PLAYED = [m if m in SHORT else pytest.param(m, marks=pytest.mark.long) for m in MUTANTS]


def source(module: str, changes: dict[str, str]) -> str:
    """The text of a module with changes; it must follow the code."""
    text = (HERE.parent / "fedsim" / module).read_text()
    for old, new in changes.items():
        assert text.count(old) == 1, (
            f"fedsim/{module} has this {text.count(old)} times, not once: {old}"
        )
        text = text.replace(old, new)
    return text


def forget() -> None:
    """Programs of the server are made anew."""
    programs.serving.cache_clear()


def signatures(kinds: dict) -> dict:
    return {
        family: {name: inspect.signature(f) for name, f in known.items()}
        for family, known in kinds.items()
    }


@pytest.fixture
def put(monkeypatch):
    """Return what runs a module again with changes; its kinds stay changed until the test ends."""
    kinds = {family: dict(known) for family, known in FAMILIES.items()}

    def run_again(module: str, changes: dict[str, str]) -> None:
        name = "fedsim." + module.removesuffix(".py").replace("/", ".")
        made = {"__name__": name, "__package__": name.rpartition(".")[0]}
        code = compile(source(module, changes), f"fedsim/{module}, changed", "exec")
        with (
            monkeypatch.context() as patch
        ):  # the schema is made of signatures, which stay what they are
            patch.setattr(names, "_registrations", [0])
            exec(code, made)
        assert signatures(FAMILIES) == signatures(kinds)
        if module == "engine/server.py":  # it has no kinds: `serving` makes its programs by it
            monkeypatch.setattr(programs, "Server", made["Server"])
            forget()

    yield run_again
    for family, known in kinds.items():
        FAMILIES[family].clear()
        FAMILIES[family].update(known)
    if programs.Server is not Server:
        forget()


def run(test: str) -> None:
    """A test by the name that pytest calls it by."""
    file, function, case = re.fullmatch(r"(\w+)\.py::(\w+)(?:\[(.+)\])?", test).groups()
    module = importlib.import_module(file)
    known = {c["name"]: c for c in getattr(module, "CASES", ())} or getattr(module, "RULES", {})
    cases = [known[case] if hasattr(module, "CASES") else case] if case in known else []
    if len(cases) != bool(case):
        raise LookupError(f"there is no test {test}")
    getattr(module, function)(*cases)


@pytest.mark.quick(20)
@pytest.mark.parametrize("mutant", PLAYED, ids=lambda mutant: mutant.bug)
def test_the_bug_is_caught(mutant, put):
    put(mutant.module, mutant.changes)
    with pytest.raises(AssertionError, match=mutant.how):
        run(mutant.caught_by[0])


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "test"), sorted({(m.module, test) for m in MUTANTS for test in m.caught_by})
)
def test_without_the_bug_the_same_test_passes(module, test, put):
    """So it is the change that is caught, and not that the module ran once more."""
    put(module, {})
    run(test)


def test_every_bug_is_there_once():
    assert sorted(m.bug for m in MUTANTS) == sorted(BUGS) and len(BUGS) == 41 + len(MORE)


def cells(bug: str) -> list[str]:
    """A row of the table."""
    mutant = next(m for m in MUTANTS if m.bug == bug)
    tests = "<br>".join(f"`{test}`" for test in mutant.caught_by)
    return [bug, BUGS[bug], f"`fedsim/{mutant.module}`", tests]


def table() -> str:
    """MUTANTS.md, in the order of mutants.json."""
    rows = [["bug", "seen in", "put into", "caught by"], ["---"] * 4, *map(cells, BUGS)]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join([ABOUT, *lines, ""])


def test_the_table_is_up_to_date():
    assert TABLE.read_text() == table(), (
        "PYTHONPATH=tests python tests/house/test_mutants.py writes it"
    )


if __name__ == "__main__":
    TABLE.write_text(table())

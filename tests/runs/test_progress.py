"""The progress that a run prints on stderr: on terminals of any width, and without a terminal."""

import io
import re
from types import SimpleNamespace

import jax
import pytest
from rich.console import Console

from fedsim.runs.bar import bar
from fedsim.runs.compiling import Memory
from fedsim.runs.displays import Lines
from fedsim.runs.progress import Count

CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SPEC = SimpleNamespace(spec=SimpleNamespace(name="study", rounds=200, seeds=[0, 1]))


def row(round, status="running", wall=3.0):
    timing = {"wall_seconds": wall, "compile_seconds": 1.0}
    return SimpleNamespace(
        values={"round": round, "test_accuracy": 0.5}, timing=timing, status=status
    )


def of(seed, method="median", variant="", run=None):
    """What a count reads of a run with a journal."""
    who = {"method": method, "variant": variant, "seed": seed}
    return SimpleNamespace(who=who, run=run)


def counted():
    """A count, what it has shown (rounds, rounds in all, words, seconds left), and its clock."""
    shown, clock = [], [0.0]
    return Count(SPEC, lambda *count: shown.append(count), lambda: clock[0]), shown, clock


def cell(method, malicious):
    spec = SimpleNamespace(rounds=200, seeds=[0, 1])
    who = {"method": method, "variant": f"fleet.malicious={malicious}"}
    return SimpleNamespace(key_columns=who, rounds=200, scenario=SimpleNamespace(spec=spec))


CELLS = [cell("fedavg", 0), cell("fedprox(mu=0.1)", 0), cell("fedprox(mu=0.1)", 0.2)]


def test_how_long_programs_compile_is_known_from_the_same_comparison_or_from_others(tmp_path):
    memory = Memory(str(tmp_path))
    assert memory.expected("study", 3) is None
    memory.add("other", 2, 10.0)
    memory.add("another", 1, 9.0)
    assert memory.expected("study", 3) == 3 * 7.0  # the median of 5 and 9 seconds a program
    memory.add("study", 3, 60.0)
    assert memory.expected("study", 3) is None  # now they are in the cache, which is faster
    memory.add("study", 3, 6.0)
    memory.add("study", 3, 4.0)
    assert memory.expected("study", 3) == 4.0
    memory.add("study", 3, 0.2)
    memory.add("compiled before", 1, 0.0)
    assert memory.expected("study", 3) is None  # not worth a word
    assert memory.expected("fifth", 1) == 9.0


def test_a_damaged_memory_or_none_is_no_obstacle(tmp_path):
    memory = Memory(str(tmp_path))
    memory.add("study", 3, 60.0)
    (file,) = tmp_path.iterdir()
    for damaged in ("[1", "[1]", '{"study 3": 60.0}', '{"study 3": []}', '{"study 0": [60.0]}'):
        file.write_text(damaged)
        assert memory.expected("study", 4) is None, damaged
    nowhere = Memory(str(tmp_path / "missing"))
    nowhere.add("study", 3, 60.0)
    assert nowhere.expected("study", 4) is None and Memory(None).expected("study", 4) is None


@pytest.fixture
def cache(tmp_path):
    """An empty compile cache."""
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    yield str(tmp_path)
    jax.config.update("jax_compilation_cache_dir", before)


def test_a_comparison_says_what_compiles_and_for_how_long_until_its_first_round(cache, monkeypatch):
    seconds = iter([100.0, 160.0, 160.0])
    monkeypatch.setattr("fedsim.runs.compiling.compile_seconds", lambda: next(seconds))
    Memory(cache).add("other", 1, 20.0)
    count, shown, _ = counted()
    count.comparison_started(CELLS, programs=2)
    count(of(0, "fedavg", "fleet.malicious=0"), row(0))
    assert {words for _, _, words, _ in shown} == {"compiling 2 programs, about 40 s"}
    count(of(0, "fedavg", "fleet.malicious=0"), row(1))
    assert "compiling" not in shown[-1][2] and "round 1/200" in shown[-1][2]
    count.close()
    again, shown, _ = counted()
    again.comparison_started(CELLS, programs=2)
    assert shown[-1][2] == "compiling 2 programs"
    assert Memory(cache).expected("other", 1) is None
    assert Memory(cache).expected("third", 2) == 2 * (20.0 + 60.0 / 2) / 2


def test_a_comparison_names_its_current_configuration():
    count, shown, _ = counted()
    count.comparison_started(CELLS, programs=2)
    one = of(0, "fedprox(mu=0.1)", "fleet.malicious=0.2")
    other = of(0, "fedavg", "fleet.malicious=0")
    count(one, row(40))
    label = "[3/3] fedprox(mu=0.1) fleet.malicious=0.2"
    words = f"{label}: round 40/200  accuracy 0.5000  20.0 rounds/s"
    assert shown[-1][:3] == (40, 1200, words)
    count(other, row(10))
    assert shown[-1][:2] == (50, 1200)
    assert shown[-1][2].startswith("[1/3] fedavg fleet.malicious=0 and 1 more: round 10")
    count(one, row(200, "done"))
    count(other, row(20))
    assert shown[-1][0] == 220
    assert shown[-1][2].startswith("[1/3] fedavg fleet.malicious=0: round 20/200")


def test_runs_of_other_processes_are_counted_as_they_end():
    count, shown, clock = counted()
    count.comparison_started(CELLS, programs=2)
    count.runs_ended([("fedavg fleet.malicious=0", 0)])  # before
    assert shown[-1] == (200, 1200, "1 of 6 runs ended", None)
    clock[0] = 10.0
    count.runs_ended([("fedavg fleet.malicious=0", 1)])
    assert shown[-1] == (400, 1200, "2 of 6 runs ended", 10.0 * 4)
    count(of(1, "fedavg", "fleet.malicious=0", SimpleNamespace(round=200, status="done")), None)
    assert count.runs_done == 2  # it is only read here


def test_runs_of_several_seeds_are_numbered():
    count, shown, _ = counted()
    count(of(0), row(0))
    count(of(1), row(8))
    assert [words for _, _, words, _ in shown] == [
        "run 1 of 2: round 0/200  compiling",
        "runs 1 to 2 of 2: round 0/200  accuracy 0.5000  4.0 rounds/s",
    ]


def test_the_time_left_follows_from_rounds_after_the_first_row():
    """Neither what compiled before that counts, nor what an earlier command has done."""
    count, shown, clock = counted()
    count(of(0, run=SimpleNamespace(round=100, status="running")), None)
    clock[0] = 50.0
    count(of(0), row(110))
    assert shown[-1][:2] == (110, 400) and shown[-1][3] is None
    clock[0] = 55.0
    count(of(0), row(120))
    assert shown[-1][3] == (400 - 120) * 5 / 10
    count(of(1, run=SimpleNamespace(round=200, status="done")), None)
    clock[0] = 60.0
    count(of(0), row(130))
    assert shown[-1][:2] == (330, 400) and shown[-1][3] == (400 - 330) * 5 / 10


def test_without_a_terminal_a_line_is_printed_every_half_minute_and_at_the_end():
    printed, time = [], [0.0]
    lines = Lines("study", printed.append, lambda: time[0])
    for second in range(100):
        time[0] = float(second)
        lines(second, 200, f"round {second}", 200.0 - second if second > 30 else None)
    lines.close()
    assert printed == [
        "fedsim: study: 30/200 rounds  round 30",
        "fedsim: study: 60/200 rounds, about 2 min left  round 60",
        "fedsim: study: 90/200 rounds, about 2 min left  round 90",
        "fedsim: study: 99/200 rounds, about 2 min left  round 99; 2 min in all",
    ]
    printed.clear()
    quick = Lines("study", printed.append, lambda: time[0])
    quick(200, 200, "done", 0.0)
    quick.close()
    assert printed == []  # its table follows at once


@pytest.mark.parametrize("width", [60, 80, 140])
def test_bar_count_and_time_left_are_complete_at_any_width(width):
    console = Console(width=width, force_terminal=True, file=(text := io.StringIO()))
    label = "fedprox(mu=0.1) data.partition.alpha=0.1, fleet.malicious=0.2"
    words = f"[3/12] {label}: round 40/200  accuracy 0.9"
    with bar(console, "study", 2400) as show:
        show(1234, 2400, words, 754.0)
    last = [
        line for line in re.split(r"[\r\n]+", CODES.sub("", text.getvalue())) if "1234" in line
    ][-1]
    assert "1234/2400" in last
    assert re.search(r"0:12:3\d", last)
    assert "━" in last
    assert len(last.rstrip()) <= width
    assert "[3/12] fedprox(mu=0.1)"[: width - 40] in last

"""The progress that a run prints on stderr: on terminals of any width, and without a terminal."""

import fcntl
import io
import os
import pty
import re
import struct
import sys
import termios
from types import SimpleNamespace

import pytest
from conftest import if_whole
from directories import tiny, written
from rich.console import Console

from fedsim.runs.bar import bar
from fedsim.runs.displays import Lines
from fedsim.runs.execute import Configuration, EndedRun
from fedsim.runs.progress import Count
from fedsim.runs.time_left import Point, TimeLeft

CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SPEC = SimpleNamespace(spec=SimpleNamespace(name="study", rounds=200, seeds=[0, 1]))


def row(round, status="running", wall=3.0):
    timing = {"wall_seconds": wall, "compile_seconds": 1.0}
    return SimpleNamespace(
        values={"round": round, "test_accuracy": 0.5}, timing=timing, status=status
    )


def counted():
    """A count, and what it has shown: rounds, rounds in all, words, and seconds left."""
    shown, clock = [], [0.0]
    return Count(SPEC, lambda *count: shown.append(count), lambda: clock[0]), shown


def test_a_comparison_names_its_current_configuration():
    count, shown = counted()
    labels = [
        "fedavg fleet.malicious=0",
        "fedprox(mu=0.1) fleet.malicious=0",
        "fedprox(mu=0.1) fleet.malicious=0.2",
    ]
    count.comparison_started(
        {label: Configuration(n, 2, 200, label) for n, label in enumerate(labels, 1)}, processes=1
    )
    count.set_configuration({"method": "fedprox(mu=0.1)", "variant": "fleet.malicious=0.2"})
    one, other = object(), object()
    count(one, 0, row(40))
    label = "[3/3] fedprox(mu=0.1) fleet.malicious=0.2"
    words = f"{label}: round 40/200  accuracy 0.5000  20.0 rounds/s"
    assert shown[-1][:3] == (40, 1200, words)
    count.set_configuration({"method": "fedavg", "variant": "fleet.malicious=0"})
    count(other, 0, row(10))
    assert shown[-1][:2] == (50, 1200) and shown[-1][2].startswith(
        "[1+3/3] fedavg fleet.malicious=0 and 1 more: round 10"
    )
    count(one, 0, row(200, "done"))
    count(other, 0, row(20))
    assert shown[-1][0] == 220 and shown[-1][2].startswith(
        "[1/3] fedavg fleet.malicious=0: round 20/200"
    )
    count.runs_ended([EndedRun("fedavg fleet.malicious=0")])
    assert shown[-1][:3] == (420, 1200, "2 of 6 runs ended")


def test_runs_of_several_seeds_are_numbered():
    count, shown = counted()
    count(0, 0, row(0))
    count(0, 1, row(8))
    assert [words for _, _, words, _ in shown] == [
        "run 1 of 2: round 0/200  compiling",
        "runs 1 to 2 of 2: round 0/200  accuracy 0.5000  4.0 rounds/s",
    ]


def test_resumed_runs_are_counted_from_their_commit():
    count, shown = counted()
    for seed, round, status, earlier in ((0, 200, "done", 50.0), (1, 100, "running", 60.0)):
        clock = SimpleNamespace(earlier=(earlier, 10.0))
        count.run_started(0, seed, SimpleNamespace(round=round, status=status, stopwatch=clock))
    count(0, 1, row(110, wall=71.0 - 9.0))
    assert shown[-1][:2] == (310, 400) and shown[-1][2].startswith("run 2 of 2: round 110/200")
    assert shown[-1][3] == pytest.approx(
        90 * (61 - 50) / 10
    )  # its pace here, times its remaining rounds


# ---------------------------------------------------------------------------- how long it will take

ONE = Configuration(number=1, runs=1, rounds=200, program="one")


def remaining(**configurations):
    time = [0.0]
    return TimeLeft(configurations, clock=lambda: time[0]), time


def test_compile_time_does_not_affect_the_pace():
    """Two minutes of compiling, and a second for every round: three minutes are left, not hours."""
    left, _ = remaining(a=ONE)
    assert left.seconds() is None
    left.row("a", 0, Point(0, working=1.0, compiling=2.0), last=False)
    assert left.seconds() is None
    left.row("a", 0, Point(1, working=2.0, compiling=122.0), last=False)
    assert left.seconds() == 199
    left.row("a", 0, Point(2, working=2.5, compiling=122.0), last=False)
    assert (
        left.seconds() == 198 * 0.5
    )  # the round that compiled does not count towards the pace yet


def test_the_pace_is_that_of_the_last_rounds_and_the_time_left_counts_down():
    left, time = remaining(a=ONE)
    for r in range(101):
        left.row("a", 0, Point(r, working=float(r), compiling=9.0), last=False)
    for r in range(101, 121):
        left.row("a", 0, Point(r, working=100.0 + 3 * (r - 100), compiling=9.0), last=False)
    assert left.seconds() == 80 * 3
    time[0] = 15.0
    assert left.seconds() == 80 * 3 - 15
    left.row("a", 0, Point(150, working=250.0, compiling=9.0), last=True)  # it diverged
    assert left.seconds() == 0


def test_a_program_is_compiled_once_and_similar_runs_share_a_pace():
    other = Configuration(number=2, runs=3, rounds=200, program="other")
    left, _ = remaining(
        a=ONE, b=ONE._replace(number=3), c=other, d=other._replace(number=4, rounds=100)
    )
    left.row("a", 0, Point(0, 0.0, 10.0), last=False)
    left.row("a", 0, Point(100, 200.0, 40.0), last=False)
    rounds = 100 + 200 + 3 * 200 + 3 * 100
    assert left.seconds() == 2 * rounds + 40  # seconds a round, and one more program
    left.row("c", 0, Point(0, 0.0, 10.0), last=False)
    left.row("c", 0, Point(100, 500.0, 60.0), last=False)
    assert left.seconds() == 2 * (100 + 200) + 5 * (3 * 200 - 100 + 3 * 100)


def test_parallel_processes_share_the_time_left():
    other = Configuration(number=2, runs=2, rounds=100, program="other")
    time = [0.0]
    left = TimeLeft({"a": ONE._replace(runs=3), "b": other}, processes=4, clock=lambda: time[0])
    left.ended(EndedRun("a", rounds=200, wall_seconds=440.0, compile_seconds=40.0))
    assert left.seconds() == ((2 * 200 + 2 * 100) * 2 + 40) / 4
    left.ended(EndedRun("b"))  # it failed
    assert left.seconds() == ((2 * 200 + 100) * 2 + 40) / 4
    time[0] = 10.0
    left.ended(EndedRun("b", rounds=100, wall_seconds=500.0, compile_seconds=100.0))
    assert left.seconds() == 2 * 200 * 2 / 4


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
    assert (
        "1234/2400" in last
        and re.search(r"0:12:3\d", last)
        and "━" in last
        and len(last.rstrip()) <= width
    )
    assert "[3/12] fedprox(mu=0.1)"[: width - 40] in last


@if_whole
@pytest.mark.long
@pytest.mark.parametrize("width", [60, 80])
def test_the_bar_fits_the_width_of_the_terminal(width, tmp_path):
    file = written(tiny(rounds=400), tmp_path / "s.yaml")
    child, terminal = pty.fork()
    if not child:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        words = [
            sys.executable,
            "-m",
            "fedsim.cli",
            "run",
            str(file),
            "--out",
            str(tmp_path / "run"),
        ]
        os.execve(
            words[0],
            words,
            {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")},
        )
    text = b""
    while True:
        try:
            text += os.read(terminal, 65536)
        except OSError:  # its other end is closed
            break
    os.close(terminal)
    assert os.waitpid(child, 0)[1] == 0
    shown = re.split(r"[\r\n]+", CODES.sub("", text.decode()))
    lines = [line for line in shown if re.search(r"━.*\d+/800 ", line)]
    assert lines and not [
        line for line in lines if len(line) > width or not re.search(r"/800 +[-\d]+:", line)
    ]

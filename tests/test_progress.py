"""What a run says on stderr while it goes on: on terminals of any width, and where there is none."""

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
from directories import tiny, written
from rich.console import Console

from fedsim.cli.progress import Count, Lines, bar

CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SPEC = SimpleNamespace(spec=SimpleNamespace(name="study", rounds=200, seeds=[0, 1]))


def row(round, status="running"):
    timing = {"wall_seconds": 3.0, "compile_seconds": 1.0}
    return SimpleNamespace(values={"round": round, "test_accuracy": 0.5}, timing=timing, status=status)


def test_a_comparison_says_which_configuration_it_is_at():
    shown = []
    count = Count(SPEC, lambda *now: shown.append(now))
    labels = ["fedavg fleet.malicious=0", "fedprox(mu=0.1) fleet.malicious=0", "fedprox(mu=0.1) fleet.malicious=0.2"]
    count.begin(6, {label: number for number, label in enumerate(labels, 1)})
    count.enters({"method": "fedprox(mu=0.1)", "variant": "fleet.malicious=0.2"})
    one, other = object(), object()
    count(one, 0, row(40))
    assert shown[-1] == (
        40, 1200, "[3/3] fedprox(mu=0.1) fleet.malicious=0.2: round 40/200  accuracy 0.5000  20.0 rounds/s"
    )  # fmt: skip
    count.enters({"method": "fedavg", "variant": "fleet.malicious=0"})
    count(other, 0, row(10))
    assert shown[-1][:2] == (50, 1200) and shown[-1][2].startswith(
        "[1+3/3] fedavg fleet.malicious=0 and 1 more: round 10"
    )
    count(one, 0, row(200, "done"))
    count(other, 0, row(20))
    assert shown[-1][0] == 220 and shown[-1][2].startswith("[1/3] fedavg fleet.malicious=0: round 20/200")
    count.ended(1)
    assert shown[-1] == (420, 1200, "2 of 6 runs ended")


def test_runs_of_several_seeds_are_numbered():
    shown = []
    count = Count(SPEC, lambda *now: shown.append(now))
    count(0, 0, row(0))
    count(0, 1, row(8))
    assert [words for _, _, words in shown] == [
        "run 1 of 2: round 0/200  compiling", "runs 1 to 2 of 2: round 0/200  accuracy 0.5000  4.0 rounds/s"
    ]  # fmt: skip


def test_without_a_terminal_a_line_every_half_minute_and_at_the_end():
    said, now = [], [0.0]
    lines = Lines("study", said.append, lambda: now[0])
    for second in range(100):
        now[0] = float(second)
        lines(second, 200, f"round {second}")
    lines.close()
    assert said == [
        "fedsim: study: 30/200 rounds, about 3 min left  round 30",
        "fedsim: study: 60/200 rounds, about 2 min left  round 60",
        "fedsim: study: 90/200 rounds, about 2 min left  round 90",
        "fedsim: study: 99/200 rounds, about 2 min left  round 99; 2 min in all",
    ]
    said.clear()
    quick = Lines("study", said.append, lambda: now[0])
    quick(200, 200, "done")
    quick.close()
    assert said == []  # its table follows at once


@pytest.mark.parametrize("width", [60, 80, 140])
def test_bar_count_and_time_left_are_whole_whatever_the_width(width):
    console = Console(width=width, force_terminal=True, file=(text := io.StringIO()))
    words = "[3/12] fedprox(mu=0.1) data.partition.alpha=0.1, fleet.malicious=0.2: round 40/200  accuracy 0.9"
    with bar(console, "study", 2400) as show:
        show(1234, 2400, words)
    last = [line for line in re.split(r"[\r\n]+", CODES.sub("", text.getvalue())) if "1234" in line][-1]
    assert "1234/2400" in last and re.search(r"-:--|\d:\d\d", last) and "━" in last and len(last.rstrip()) <= width
    assert "[3/12] fedprox(mu=0.1)"[: width - 40] in last


@pytest.mark.long
@pytest.mark.parametrize("width", [60, 80])
def test_on_a_terminal(width, tmp_path):
    file = written(tiny(rounds=400), tmp_path / "s.yaml")
    child, terminal = pty.fork()
    if not child:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        words = [sys.executable, "-m", "fedsim.cli", "run", str(file), "--out", str(tmp_path / "run")]
        os.execve(
            words[0], words, {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
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
    assert lines and not [line for line in lines if len(line) > width or not re.search(r"/800 +[-\d]+:", line)]

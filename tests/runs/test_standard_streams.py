"""Commands do their work whatever their standard streams are: closed, full or unread."""

import errno
import itertools
import os
import shlex
import shutil
import subprocess
import sys

import pytest
import yaml
from conftest import WHOLE

import fedsim as library
from fedsim.cli import main
from fedsim.cli.entry import every_command
from fedsim.cli.streams import Outlet

FEDSIM = [sys.executable, "-m", "fedsim.cli"]
TINY = {
    "name": "tiny",
    "rounds": 2,
    "data": {"kind": "gaussian_blobs", "clients": 4, "samples": 60, "classes": 3, "shape": [3]},
    "cohort": {"kind": "uniform", "size": 2},
}


def fedsim(line, cwd):
    """A command line in a shell, so that it may close its streams -> what it ended with."""
    words = f"set -o pipefail; {shlex.join(FEDSIM)} {line}"
    shell = ["bash", "-c", words]
    return subprocess.run(shell, capture_output=True, text=True, cwd=cwd, timeout=120)


@pytest.fixture
def desk(tmp_path):
    """A folder with a tiny scenario and a table in it."""
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(TINY))
    task = {**TINY, "compare": {"methods": ["fedavg", "median"], "suite": 1}}
    (tmp_path / "task.yaml").write_text(yaml.safe_dump(task))
    (tmp_path / "t.csv").write_text("a,y\n" + "1,0\n2,1\n" * 20)
    return tmp_path


STREAMS = [">&-", "2>&-", ">&- 2>&-", "<&-", ">&- 2>&- <&-", "2>&1 | true"]
LINES = {
    "run": "run tiny.yaml --out out --no-pictures",
    "compare": "compare tiny.yaml --methods fedavg,median --out out --no-pictures",
    "check": "check tiny.yaml",
    "data describe": "data describe t.csv",
    "data partition": "data partition tiny.yaml --out out",
    "new": "new mine",
    "list": "list rules",
    "explain": "explain sgd",
    "new --schema": "new --schema",
    "report": "report done",
    "export": "export done",
    "export --format zip": "export --format zip done -o done.zip",
    "verify": "verify done",
    "verify --against RUN": "verify done --against done",
    "fork": "fork done --round 1 --out out --no-pictures",
    "fork --unlearn": "fork --unlearn done --client 0 --out out",
    "report --contributions": "report --contributions done",
    "doctor": "doctor",
    "doctor --bench": "doctor --bench tiny.yaml --out out",
    "check --laws": "check --laws mean",
    "suite run": "suite run task.yaml --out out",
}
LINES = {name: line for name, line in LINES.items() if name in every_command()}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that has ended."""
    folder = tmp_path_factory.mktemp("done") / "done"
    library.run(TINY, out=folder, pictures=False)
    return folder


def test_every_command_has_a_case():
    assert {words.split()[0] for words in LINES} == {words.split()[0] for words in every_command()}


ALL_CLOSED = [("report", STREAMS[4])]


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "streams"), list(itertools.product(LINES, STREAMS)) if WHOLE else ALL_CLOSED
)
def test_commands_do_their_work_with_streams_that_are_closed_or_unread(
    command, streams, desk, finished
):
    shutil.copytree(finished, desk / "done")
    done = fedsim(f"{LINES[command]} {streams}", desk)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    is_read = not streams.startswith(">") and "|" not in streams
    assert bool(done.stdout) == is_read
    if command in ("run", "compare"):
        checked = fedsim("verify out", desk)
        assert checked.returncode == 0, checked.stdout


def test_a_full_disk_behind_standard_output_is_one_line(tmp_path):
    done = fedsim("--version > /dev/full", tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == "fedsim: error: standard output: No space left on device\n"


@pytest.mark.long
def test_a_verification_that_nobody_reads_keeps_its_exit_code(finished, tmp_path):
    out = shutil.copytree(finished, tmp_path / "done")
    (out / "rounds.csv").write_text("round\n1\n")
    assert fedsim("verify done | true", tmp_path).returncode == 7


def test_an_unread_stream_is_ignored_and_a_full_one_is_reported_once():
    read, write = os.pipe()
    os.close(read)
    outlet = Outlet(write, "wb")
    assert [outlet.write(memoryview(b"four")), outlet.write(b"more")] == [4, 4]
    outlet.close()
    full = Outlet("/dev/full", "wb")
    with pytest.raises(OSError) as error:
        full.write(b"x")
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, "standard error")
    assert full.write(b"x") == 1  # nothing is left to report when the process ends
    full.close()


def test_closed_standard_descriptors_are_not_reused_for_files(tmp_path):
    """A file with descriptor 2 would receive the warnings of libraries."""
    script = (
        "import os, sys; from fedsim.cli import streams; streams.prepare();"
        "file = os.open('f', os.O_CREAT | os.O_WRONLY); os.write(2, b'x'); os.write(1, b'x');"
        "print('x', file=sys.stderr); print('x'); streams.flush();"
        "sys.exit(not (file > 2 and os.path.getsize('f') == 0 and sys.stdin.read() == ''))"
    )
    line = f"{shlex.quote(sys.executable)} -c {shlex.quote(script)} >&- 2>&- <&-"
    assert subprocess.run(["bash", "-c", line], cwd=tmp_path).returncode == 0


def test_main_leaves_the_caller_s_streams_unchanged(capsys):
    before = sys.stdout, sys.stderr
    main(["--version"])
    assert (sys.stdout, sys.stderr) == before and "fedsim" in capsys.readouterr().out

"""Starts the command by a fork of a process that has imported everything and computed nothing.

Replaces `subprocess.Popen` in `tests/deep`; kills and signals still reach a separate process.
"""

import importlib
import os
import pkgutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import SimpleNamespace

import directories

DEEP = Path(__file__).parents[1] / "deep"


def ready() -> None:
    """Import what the command may need, without starting a device."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import fedsim

    for module in pkgutil.walk_packages(fedsim.__path__, "fedsim."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    from jax._src import xla_bridge

    assert not xla_bridge._backends, "a process that has computed cannot be forked"
    if str(DEEP) not in sys.path:
        sys.path.insert(0, str(DEEP))


class Forked:
    """A child that runs the command; has the methods of `subprocess.Popen` that the tests use."""

    def __init__(self, words: list[str]):
        self.streams = [tempfile.TemporaryFile() for _ in range(2)]  # noqa: SIM115 (closed when they have been read)
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            os._exit(self._child(words))

    def _child(self, words: list[str]) -> int:
        for number, stream in enumerate(self.streams, 1):
            os.dup2(stream.fileno(), number)
        sys.argv = ["fedsim", *words]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = 0
        try:
            from fedsim.cli import main

            main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except BaseException:
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        return code

    def poll(self) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = 600.0) -> tuple[str, str]:
        """Wait for the end; return the contents of both streams."""
        end = time.monotonic() + timeout
        while self.poll() is None:
            assert time.monotonic() < end, f"not done in {timeout} s"
            time.sleep(0.002)
        texts = []
        for stream in self.streams:
            stream.seek(0)
            texts.append(stream.read().decode())
            stream.close()
        return texts[0], texts[1]


def started(scenario: Path, out: Path, *words: str) -> Forked:
    """`directories.started`, forked."""
    return Forked(directories.command(scenario, out, *words)[3:])


def run(words: list[str], **_) -> SimpleNamespace:
    """`subprocess.run` of `python -m fedsim.cli ...`, forked."""
    process = Forked(words[3:])
    stdout, stderr = process.communicate()
    return SimpleNamespace(returncode=process.returncode, stdout=stdout, stderr=stderr)


def finished(scenario: Path, out: Path, *words: str) -> SimpleNamespace:
    """`directories.finished`, forked."""
    return run(directories.command(scenario, out, *words))


def deep(name: str):
    """A script of `tests/deep` whose processes are forked."""
    ready()
    module = importlib.import_module(name)
    module.started, module.finished = started, finished
    return module

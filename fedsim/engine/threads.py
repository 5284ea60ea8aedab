"""Threads that hand programs to one device.

XLA runs what one thread hands over one after another, and what several hand over at once. A CPU is better used by a
program on each core than by programs whose every operation is cut among the cores: two clients' steps never wait for
one another. An accelerator has one queue; there one thread is enough.
"""

import functools
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, ParamSpec, TypeVar

import jax

from fedsim.engine.jitted import Jitted
from fedsim.machine import platform, threads_in_force

P = ParamSpec("P")
R = TypeVar("R")
WORK = (
    1 << 27
)  # bytes that products read below which handing half of them to a second thread takes longer than it saves
CPU = {"xla_cpu_multi_thread_eigen": False}  # compiler: cut no operation among the cores
_ran: weakref.WeakSet[Callable] = weakref.WeakSet()  # programs that ran before


def jit_for_threads(function: Callable[P, R], donate: tuple[int, ...] = ()) -> Jitted[P, R]:
    """`jax.jit` of a program that several threads run at once."""
    compiled: Any = jax.jit(
        function, compiler_options=CPU if platform() == "cpu" else None, donate_argnums=donate
    )
    return compiled


def device_threads() -> int:
    """How many threads the default device has work for."""
    return threads_in_force() if platform() == "cpu" else 1


def useful_threads(work: float) -> int:
    """How many are worth having for programs whose products read so many bytes. Changes no bit."""
    return device_threads() if work > WORK else 1


def in_threads(program: Callable[..., R], calls: Sequence[tuple]) -> list[R]:
    """A program for every tuple of arguments, each handed over by a thread of its own -> the results, not awaited.

    The first thread is the caller; when it has compiled the program, the others find it compiled.
    """
    (first, *others), numerics, results = calls, _numerics(), []
    if program not in _ran:
        results.append(program(*first))
        _ran.add(program)
    pools = zip(_pools(len(others)), others, strict=True)
    waiting = [pool.submit(_within, numerics, program, call) for pool, call in pools]
    return [*(results or [program(*first)]), *(result.result() for result in waiting)]


def run_in_threads(
    function: Callable[..., R], calls: Sequence[tuple], programs: Sequence[Callable]
) -> list[R]:
    """A function that hands several programs over, for every tuple of arguments -> the results in that order.

    The threads of the device take turns: what one hands over waits for nothing that another does. Calls by the same
    programs stay with one thread until these have run once, so that nothing is compiled twice.

    Args:
      function: of one call's arguments; it may not come here again, nor to `in_threads`.
      calls: its arguments.
      programs: of each call, the longest program that it hands over.
    """
    threads = min(device_threads(), len(calls))
    if threads < 2:
        return [function(*call) for call in calls]
    chains: dict[Any, list[int]] = {}
    for i, program in enumerate(programs):
        chains.setdefault(i if program in _ran else program, []).append(i)
    left, results = deque(chains.values()), dict[int, R]()

    def work() -> None:
        while left:
            try:
                chain = left.popleft()
            except IndexError:  # the last one went to another thread meanwhile
                return
            for i in chain:
                results[i] = function(*calls[i])

    numerics = _numerics()
    others = [pool.submit(_within, numerics, work, ()) for pool in _pools(threads - 1)]
    try:
        work()
    finally:
        left.clear()  # after an error nothing new is begun
        wait(others)
    for other in others:
        other.result()
    _ran.update(programs)
    return [results[i] for i in range(len(calls))]


@functools.cache
def _pools(count: int) -> list[ThreadPoolExecutor]:
    return [ThreadPoolExecutor(1, f"device-{i + 1}") for i in range(count)]


def _numerics() -> list:
    """Float type, precision and device of this thread: JAX keeps them by thread."""
    return [
        getattr(jax.config, f"jax_{name}")
        for name in ("enable_x64", "default_matmul_precision", "default_device")
    ]


def _within(numerics: list, program: Callable[..., R], call: tuple) -> R:
    x64, precision, device = numerics
    with jax.enable_x64(x64), jax.default_matmul_precision(precision), jax.default_device(device):
        return program(*call)

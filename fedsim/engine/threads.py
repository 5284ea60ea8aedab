"""Threads that submit programs to one device.

XLA runs the programs of one thread in sequence, and those of several threads at once. Most
operations of a local step are too small to be split over the cores of a CPU, so that two programs
at once keep two cores busier than one. Products are split all the same, and wait for each other.
An accelerator has one queue; there one thread is enough.
"""

import functools
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, NamedTuple, ParamSpec, TypeVar

import jax

from fedsim.engine.jitted import Jitted
from fedsim.machine import platform, threads_in_force

P = ParamSpec("P")
R = TypeVar("R")

# Bytes that matrix products read; with fewer, a second thread costs more time than it saves.
WORK = 1 << 27

# Compiler options on a CPU. This one is to split no operation over the cores, but products still
# are, as of JAX 0.10, in the same time. It stays because results without it differ in their last
# bits (of ResNets, recurrent networks and transformers, for example).
CPU = {"xla_cpu_multi_thread_eigen": False}

# Programs that have run, and so are compiled.
_ran: weakref.WeakSet[Callable] = weakref.WeakSet()


def jit_for_threads(function: Callable[P, R], donate: tuple[int, ...] = ()) -> Jitted[P, R]:
    """Return `jax.jit` of a program that several threads run at once."""
    options = CPU if platform() == "cpu" else None
    compiled: Any = jax.jit(function, compiler_options=options, donate_argnums=donate)
    return compiled


def device_threads() -> int:
    """Return how many threads the default device has work for."""
    return threads_in_force() if platform() == "cpu" else 1


def useful_threads(work: float) -> int:
    """Return how many threads pay off for programs whose products read `work` bytes.

    The number changes no bit.
    """
    return device_threads() if work > WORK else 1


def in_threads(program: Callable[..., R], calls: Sequence[tuple]) -> list[R]:
    """Call a program with every tuple of arguments, each from its own thread.

    The first thread is the caller's; when it has compiled the program, the others find it compiled.

    Returns:
      The results in the order of the calls; the device may still be computing them.
    """
    own_call, *other_calls = calls
    own_result = []
    if program not in _ran:
        own_result.append(program(*own_call))
        _ran.add(program)

    numerics = _numerics()
    futures = []
    for pool, call in zip(_pools(len(other_calls)), other_calls, strict=True):
        futures.append(pool.submit(_call_within, numerics, program, call))

    if not own_result:
        own_result.append(program(*own_call))
    return own_result + [future.result() for future in futures]


def run_in_threads(
    function: Callable[..., R], calls: Sequence[tuple], programs: Sequence[Callable]
) -> list[R]:
    """Call a function that runs several programs with every tuple of arguments.

    The device's threads take turns; what one of them submits does not wait for another one. Calls
    of the same program stay with one thread until it has run once, so that it is compiled once.

    Args:
      function: called with one tuple of `calls`; it may not call this function or `in_threads`.
      programs: for each call, the longest program that it runs.

    Returns:
      The results in the order of the calls.
    """
    threads = min(device_threads(), len(calls))
    if threads < 2:
        return [function(*call) for call in calls]

    waiting = deque(_chains(programs))
    results = dict[int, R]()

    def work() -> None:
        while waiting:
            try:
                chain = waiting.popleft()
            except IndexError:  # another thread has taken the last one meanwhile
                return
            for i in chain:
                results[i] = function(*calls[i])

    numerics = _numerics()
    futures = [pool.submit(_call_within, numerics, work, ()) for pool in _pools(threads - 1)]
    try:
        work()
    finally:
        waiting.clear()  # after an error, start nothing new
        wait(futures)
    for future in futures:
        future.result()

    _ran.update(programs)
    return [results[i] for i in range(len(calls))]


def _chains(programs: Sequence[Callable]) -> list[list[int]]:
    """Positions of the calls that one thread makes in sequence: those of a program not yet run."""
    chains: dict[Any, list[int]] = {}
    for i, program in enumerate(programs):
        key = i if program in _ran else program
        chains.setdefault(key, []).append(i)
    return list(chains.values())


@functools.cache
def _pools(count: int) -> list[ThreadPoolExecutor]:
    return [ThreadPoolExecutor(1, f"device-{i + 1}") for i in range(count)]


class _Numerics(NamedTuple):
    """JAX settings that belong to a thread."""

    enable_x64: bool
    matmul_precision: Any
    device: Any


def _numerics() -> _Numerics:
    config: Any = jax.config
    return _Numerics(
        enable_x64=config.jax_enable_x64,
        matmul_precision=config.jax_default_matmul_precision,
        device=config.jax_default_device,
    )


def _call_within(numerics: _Numerics, program: Callable[..., R], call: tuple) -> R:
    """Call a program under another thread's settings."""
    with (
        jax.enable_x64(numerics.enable_x64),
        jax.default_matmul_precision(numerics.matmul_precision),
        jax.default_device(numerics.device),
    ):
        return program(*call)

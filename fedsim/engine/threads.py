"""Crews: threads that hand programs to one device.

XLA runs what one thread hands over one after another, and what several hand over at once. A CPU is better used by a
program on each core than by programs whose every operation is cut among the cores: two clients' steps never wait for
one another. An accelerator has one queue; there one crew is enough.
"""

import functools
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax

from fedsim.engine.machine import platform, threads_in_force

TINY = 8192  # bytes of a model whose steps are over before a second thread has got going
_warm: weakref.WeakSet[Callable] = weakref.WeakSet()  # programs that ran before
CPU = {"xla_cpu_multi_thread_eigen": False}  # compiler: cut no operation among the cores


def compiled(function: Callable, **options: Any) -> Callable:
    """`jax.jit` of a program that crews run."""
    return jax.jit(function, compiler_options=CPU if platform() == "cpu" else None, **options)


def hands() -> int:
    """How many crews the default device has work for."""
    return threads_in_force() if platform() == "cpu" else 1


def useful_crews(model_bytes: int) -> int:
    """How many are worth having for the programs of one run over a model of this size. Changes no bit."""
    return hands() if model_bytes > TINY else 1


def side_by_side(program: Callable, calls: Sequence[tuple]) -> list:
    """A program for each crew's arguments, each handed over by the crew's own thread -> what they return, not awaited.

    The first crew is the caller; when it has compiled the program, the others find it compiled.
    """
    (first, *others), numerics, results = calls, _numerics(), []
    if program not in _warm:
        results.append(program(*first))
        _warm.add(program)
    hands = zip(_hands(len(others)), others, strict=True)
    waiting = [hand.submit(_within, numerics, program, call) for hand, call in hands]
    return [*(results or [program(*first)]), *(one.result() for one in waiting)]


@functools.cache
def _hands(count: int) -> list[ThreadPoolExecutor]:
    return [ThreadPoolExecutor(1, f"crew-{i + 1}") for i in range(count)]


def _numerics() -> list:
    """Float type, precision and device of this thread: JAX keeps them by thread."""
    return [getattr(jax.config, f"jax_{name}") for name in ("enable_x64", "default_matmul_precision", "default_device")]


def _within(numerics: list, program: Callable, call: tuple) -> Any:
    x64, precision, device = numerics
    with jax.enable_x64(x64), jax.default_matmul_precision(precision), jax.default_device(device):
        return program(*call)

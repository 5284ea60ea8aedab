"""The number of threads changes no bit, and each thread has the caller's numerics."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedsim import machine
from fedsim.engine import threads


def test_threads_keep_the_order_of_calls_and_the_callers_float_type_and_raise_errors():
    program = threads.jit_for_threads(lambda x: jnp.asarray(x) / 3)
    calls = [(np.float64(i),) for i in range(5)]
    with jax.enable_x64(True):
        for _ in range(3):
            thirds = [float(third) for third in threads.in_threads(program, calls)]
            assert thirds == [i / 3 for i in range(5)]

    failing = lambda i: 1 // i
    assert threads.in_threads(failing, [(1,)]) == [1]
    with pytest.raises(ZeroDivisionError):
        threads.in_threads(failing, [(1,), (0,)])


def test_parallel_calls_keep_their_order_and_a_program_first_runs_in_one_thread(monkeypatch):
    monkeypatch.setattr(threads, "threads_in_force", lambda: 3)
    double, triple = jax.jit(lambda x: x * 2), jax.jit(lambda x: x * 3)
    programs = [double, triple] * 6
    threads_of = {double: set(), triple: set()}

    def call(program, i):
        threads_of[program].add(threading.get_ident())
        return int(program(i))

    calls = list(zip(programs, range(12), strict=True))
    want = [i * (2 + i % 2) for i in range(12)]
    assert threads.run_in_threads(call, calls, programs) == want
    assert len(threads_of[double]) == len(threads_of[triple]) == 1
    for _ in range(2):
        assert threads.run_in_threads(call, calls, programs) == want


def test_parallel_calls_raise_errors_and_use_the_callers_float_type(monkeypatch):
    monkeypatch.setattr(threads, "threads_in_force", lambda: 2)
    programs = [jax.jit(lambda x, n=n: x / n) for n in (3, 7)]
    calls = [(program, 1.0) for program in programs]
    with jax.enable_x64(True):
        values = threads.run_in_threads(lambda program, x: program(jnp.asarray(x)), calls, programs)
        assert [float(value) for value in values] == [1 / 3, 1 / 7]

    for failing in range(2):
        programs = [jax.jit(abs), jax.jit(abs)]
        with pytest.raises(ZeroDivisionError):
            call = lambda i, failing=failing: 1 // (i - failing)
            threads.run_in_threads(call, [(0,), (1,)], programs)


@pytest.mark.long
@pytest.mark.parametrize(("maps", "forgets"), [(30_000, False), (40_000, True)])
def test_programs_are_dropped_before_memory_maps_run_out(maps, forgets, tmp_path, monkeypatch):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/sys/vm").mkdir(parents=True)
    (tmp_path / "proc/self/maps").write_text("line\n" * maps)
    (tmp_path / "proc/sys/vm/max_map_count").write_text("65530\n")
    cleared = []
    monkeypatch.setattr(machine, "Path", lambda path: tmp_path / path[1:])
    monkeypatch.setattr(machine.jax, "clear_caches", lambda: cleared.append(True))
    machine.forget_programs()
    assert bool(cleared) is forgets


def test_programs_are_cached_during_a_run_and_the_caller_s_settings_restored(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("JAX_ENABLE_COMPILATION_CACHE", raising=False)
    cache = tmp_path / "fedsim" / "xla"
    names = (*machine.CACHE_ALL, "jax_compilation_cache_dir")
    settings = lambda: {name: jax.config.values[name] for name in names}
    before = settings()
    machine._configure(
        {"jax_compilation_cache_dir": None, "jax_persistent_cache_min_compile_time_secs": 5.0}
    )
    try:
        host = settings()
        with machine.compile_cache() as folder:
            jax.jit(lambda x: 3 * x + 17)(jnp.arange(5.0)).block_until_ready()
        assert folder == str(cache)
        assert settings() == host
        compiled = sorted(cache.iterdir())
        assert compiled

        # Outside, nothing is written.
        jax.jit(lambda x: 5 * x + 19)(jnp.arange(5.0)).block_until_ready()
        assert sorted(cache.iterdir()) == compiled
    finally:
        machine._configure(before)

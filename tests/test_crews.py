"""Crews: how many threads hand lanes over changes no bit, and each keeps the caller's numerics."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import some
from test_bits import digest, scenario

import fedsim
from fedsim.build import build
from fedsim.build.experiment import numerics
from fedsim.engine import threads as crews
from fedsim.scenario import read


def played(monkeypatch, count, **sections):
    monkeypatch.setattr(crews, "TINY", 0)
    monkeypatch.setattr(crews, "threads_in_force", lambda: count)
    written = scenario(**sections)
    if "method" in written:
        del written["server"]
    return fedsim.run(written)


KINDS = {
    "plain": {},
    "memory": {"method": "scaffold", "cohort": {"kind": "uniform", "size": 7}},
    "stack": {"server": ["median"]},
    "float64": {"numerics": {"lanes": 2, "dtype": "float64"}},
    "blocks": {"numerics": {"lanes": 2, "block": 3}},
}


@pytest.mark.long
@pytest.mark.parametrize("kind", some(KINDS, 3))
def test_any_number_of_crews_gives_the_same_bytes(monkeypatch, kind):
    sections = {"numerics": {"lanes": 2}, **KINDS[kind]}
    runs = [played(monkeypatch, count, **sections) for count in (1, 2, 3, 5)]
    assert len({digest(run) for run in runs}) == 1


def test_there_are_no_more_crews_than_clients_for_them(monkeypatch):
    monkeypatch.setattr(crews, "TINY", 0)
    monkeypatch.setattr(crews, "threads_in_force", lambda: 8)
    for size, count in ((3, 1), (10, 3), (40, 8)):
        written = read(scenario(cohort={"kind": "uniform", "size": size}, numerics={"lanes": 4}))
        with numerics(written) as devices:
            assert build(written, devices=devices).program.mesh.crews == (count)


def test_what_each_crew_returns_comes_in_the_order_of_the_calls():
    program = crews.compiled(lambda x: x * 2)
    for _ in range(3):
        assert [int(y) for y in crews.side_by_side(program, [(jnp.asarray(i),) for i in range(5)])] == [0, 2, 4, 6, 8]


def test_a_crew_computes_with_the_callers_float_type():
    program = crews.compiled(lambda x: jnp.asarray(x) / 3)
    with jax.enable_x64(True):
        results = crews.side_by_side(program, [(np.float64(i),) for i in range(3)])
    assert {str(result.dtype) for result in results} == {"float64"}


def test_what_fails_in_a_crew_fails_in_the_caller():
    def program(i):
        return 1 // i

    assert crews.side_by_side(program, [(1,)]) == [1]
    with pytest.raises(ZeroDivisionError):
        crews.side_by_side(program, [(1,), (0,)])

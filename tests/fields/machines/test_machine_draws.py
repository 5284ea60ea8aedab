"""A client's speed does not depend on later clients, nor a chain on the order of the rounds."""

import numpy as np
import pytest
from conftest import own_kinds_of
from numpy.testing import assert_array_equal

from fedsim.fields.machines.availability import Moment
from fedsim.fleet import Clients
from fedsim.fleet.streams import Stream, generator

N = 2000
LABELS = np.random.default_rng(0).integers(0, 3, (N, 10)) * (
    np.random.default_rng(1).random((N, 10)) < 0.3
)
CLIENTS = Clients(LABELS.sum(1), lambda: LABELS)


def rng() -> np.random.Generator:
    return generator(5, Stream.SPEED)


@pytest.mark.parametrize("kind", [kind for kind in own_kinds_of("speed") if kind != "trace"])
def test_a_client_s_speed_does_not_depend_on_later_clients(kind):
    factory = own_kinds_of("speed")[kind]
    made = factory(seconds=[1.0, 2.0]) if kind == "classes" else factory()
    few = made(Clients(CLIENTS.samples[:10], lambda: LABELS[:10]), rng())
    assert_array_equal(few, made(CLIENTS, rng())[:10])


def test_a_chain_is_the_same_from_any_round():
    made = own_kinds_of("availability")["markov"]()
    uniform = lambda r: generator(7, Stream.AVAILABLE, r).random(N)
    one, other = made.begin(CLIENTS, rng()), made.begin(CLIENTS, rng())
    forward = [made.reached(one, Moment(r, 0.0, uniform)).copy() for r in range(1, 12)]
    for r in (11, 3, 7):
        assert_array_equal(made.reached(other, Moment(r, 0.0, uniform)), forward[r - 1])

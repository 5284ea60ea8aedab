"""Every availability, speed and link once, and clients that leave, worked out by hand."""

import math

import numpy as np
import pytest
from by_hand import Numbers, plan_of, speed_of
from conftest import own_kinds_of
from test_round_outcomes import machines

from fedsim.fields.machines.availability import Moment
from fedsim.fields.machines.links import Rates
from fedsim.fields.machines.machines import Dropout, Fleet
from fedsim.fleet import Clients

inf = math.inf

# ------------------------------------------------------------------------------------- availability

LABELS = np.array([[2, 0, 0], [0, 1, 1], [0, 0, 4]])  # of three clients, by class
CLIENTS = Clients(np.array([1, 2, 4]), lambda: LABELS)
NOW = (1, 0.0)  # the first round, which begins at 0 s
# kind, and what it is about -> (its parameters, what is drawn once, round and seconds, numbers of
# that round, who can be reached)
REACHED: dict[str, tuple] = {
    "always": ({}, (), NOW, [0.0, 0.5, 0.999], [1, 1, 1]),
    "bernoulli": ({"rate": 0.5}, (), NOW, [0.1, 0.5, 0.9], [1, 0, 0]),
    # a third can be reached at the start: clients 0 and 1 of these; then 0.8 of them stay and 0.1
    # of the others come
    "markov": (
        {"leave": 0.2, "come": 0.1}, (),
        NOW, {0: [0.1, 0.3, 0.4], 1: [0.85, 0.75, 0.05]}, [0, 1, 1],
    ),
    # a quarter into the day of 4 s: the best hour of zone 0, the worst of zone 2, zone 1 in between
    "diurnal": (
        {"low": 0.1, "high": 0.9, "period": 4.0, "zones": 4}, ([0, 1, 2],),
        (1, 1.0), [0.89, 0.51, 0.09], [1, 0, 1],
    ),
    "label_dependent: smallest label 0, 1 and 2 of 2": (
        {"strength": 1.0}, (), NOW, [0.0, 0.4, 0.9], [0, 1, 1],
    ),
    "label_dependent: 1, 2 and 1 of 3 labels": (
        {"by": "fewest", "strength": 0.5}, (), NOW, [0.66, 0.83, 0.67], [1, 1, 0],
    ),
    # (1 + 1) / 4 lies between the labels 1 and 2 of 2 of client 1 alone
    "label_dependent: cycle": (
        {"by": "cycle", "strength": 1.0, "period": 4}, (), NOW, [0.5, 0.5, 0.5], [0, 1, 0],
    ),
    "size_dependent": ({"exponent": 1.0}, (), NOW, [0.24, 0.51, 0.99], [1, 0, 1]),
    "size_dependent: smaller is better": (
        {"exponent": -1.0}, (), NOW, [0.99, 0.49, 0.26], [1, 1, 0],
    ),
    # e^0, e^−1 and e^−2 of the largest
    "lognormal": ({"sigma": 1.0}, ([2.0, 1.0, 0.0],), NOW, [0.99, 0.36, 0.14], [1, 1, 0]),
    # 0.4 sin(2π · 1/4) + 0.5 = 0.9
    "lognormal: a wave": (
        {"sigma": 0.0, "period": 5}, ([0.0, 0.0, 0.0],), (6, 0.0), [0.89, 0.91, 0.5], [1, 0, 1],
    ),
    # 5 s are 1 s after the trace began again, at its last end
    "trace": ({"path": "on.csv", "period": 4.0}, (), (1, 5.0), [], [1, 0, 1]),
}  # fmt: skip
ON = "client,start,end\n0,0,2\n1,0,1\n1,2,4\n2,1,2\n"


def kind_of(name: str) -> str:
    return name.partition(":")[0]


@pytest.mark.parametrize("name", REACHED)
def test_availability_is_that_worked_out_by_hand(name, tmp_path, monkeypatch):
    parameters, once, (round, seconds), numbers, expected = REACHED[name]
    (tmp_path / "on.csv").write_text(ON)
    monkeypatch.chdir(tmp_path)
    made = own_kinds_of("availability")[kind_of(name)](**parameters)
    fixed = made.begin(CLIENTS, Numbers(*once))
    uniform = lambda r: np.array(numbers[r] if isinstance(numbers, dict) else numbers)
    assert made.reached(fixed, Moment(round, seconds, uniform)).astype(int).tolist() == expected


def test_a_label_cycle_leaves_out_clients_with_only_earlier_or_later_labels():
    labels = np.array([[0, 3, 0, 0], [0, 0, 3, 0], [0, 0, 0, 3], [0, 0, 0, 0]])  # the last has none
    made = own_kinds_of("availability")["label_dependent"](by="cycle", strength=1.0, period=3)
    fixed = made.begin(Clients(labels.sum(1), lambda: labels), Numbers())
    moments = [Moment(round, 0.0, lambda r: np.zeros(4)) for round in (3, 1, 2)]
    there = [made.reached(fixed, moment).tolist() for moment in moments]
    assert there == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]


# --------------------------------------------------------------------------------- speeds and links

DEVICES = "client,up,down,latency,seconds_per_step\n0,10,100,0.5,2\n1,20,200,0,1\n"
LOG2 = math.log(2)
SPEEDS: dict[str, tuple] = {
    "constant": ({"seconds": 0.25}, (), [0.25, 0.25, 0.25]),
    "uniform": ({"low": 1.0, "high": 3.0}, ([0.0, 0.5, 0.75],), [1.0, 2.0, 2.5]),
    "lognormal": ({"median": 2.0, "sigma": 0.5}, ([0.0, 2 * LOG2, -2 * LOG2],), [2.0, 4.0, 1.0]),
    "pareto": ({"least": 2.0, "shape": 0.5}, ([0.0, 0.5, 0.75],), [2.0, 8.0, 32.0]),
    "classes": (
        {"seconds": [1.0, 5.0], "shares": [3.0, 1.0]}, ([0.7, 0.75, 0.9],), [1.0, 5.0, 5.0],
    ),
    "trace": ({"path": "devices.csv"}, (), [2.0, 1.0, 2.0]),
}  # fmt: skip
# down, up and latency
LINKS: dict[str, tuple] = {
    "constant": ({"up": 5.0, "latency": 0.5}, (), ([inf] * 3, [5.0] * 3, [0.5] * 3)),
    "lognormal": (
        {"up": 10.0, "down": 100.0, "sigma": 0.5}, ([0.0, 2 * LOG2, -2 * LOG2],),
        ([100.0, 200.0, 50.0], [10.0, 20.0, 5.0], [0.0] * 3),
    ),
    "trace": (
        {"path": "devices.csv"}, (), ([100.0, 200.0, 100.0], [10.0, 20.0, 10.0], [0.5, 0.0, 0.5]),
    ),
}  # fmt: skip


@pytest.fixture
def devices(tmp_path, monkeypatch):
    (tmp_path / "devices.csv").write_text(DEVICES)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("devices")
@pytest.mark.parametrize("kind", SPEEDS)
def test_a_local_step_takes_the_time_worked_out_by_hand(kind):
    parameters, once, expected = SPEEDS[kind]
    seconds = own_kinds_of("speed")[kind](**parameters)(CLIENTS, Numbers(*once))
    assert seconds.tolist() == pytest.approx(expected)


@pytest.mark.usefixtures("devices")
@pytest.mark.parametrize("kind", LINKS)
def test_a_link_has_the_rates_worked_out_by_hand(kind):
    parameters, once, expected = LINKS[kind]
    rates = own_kinds_of("link")[kind](**parameters)(CLIENTS, Numbers(*once))
    for rate, wanted in zip(rates, expected, strict=True):
        assert np.broadcast_to(rate, 3).tolist() == pytest.approx(wanted)


# --------------------------------------------------------------------------------- those that leave

# when it leaves: before the model comes, half-way through the training, after its message ->
# (joined, steps that count, steps in vain, whether it got the model, whether it sent a message,
# seconds of a round of it alone); 1 s down, 4 s, 2 s up
FATES: dict[str, tuple] = {
    "never": ((0.0, 0.0, 0.0), [0.9, 0.5], (True, 4, 0, True, True, 7.0)),
    "before": ((0.5, 0.0, 0.0), [0.4, 0.5], (False, 0, 0, False, False, 0.0)),
    "during": ((0.0, 0.5, 0.0), [0.4, 0.5], (False, 0, 2, True, False, 3.0)),
    "during, not": ((0.0, 0.5, 0.0), [0.6, 0.5], (True, 4, 0, True, True, 7.0)),
    "after": ((0.0, 0.5, 0.5), [0.6, 0.5], (False, 0, 4, True, True, 7.0)),
}


@pytest.mark.parametrize("name", FATES)
def test_a_client_that_leaves_has_the_outcome_worked_out_by_hand(name, monkeypatch):
    dropout, numbers, expected = FATES[name]
    links = lambda clients, rng: Rates(down=10.0, up=10.0)
    fleet = Fleet(speed=speed_of([1.0]), links=links, dropout=Dropout(*dropout), deadline=100.0)
    unequal = machines(fleet, [4], down=10, up=20)
    monkeypatch.setattr(unequal._dropout_draws, "at", lambda round, client: Numbers(numbers))
    together = unequal.round_outcome(1, np.array([0]))
    columns = [together.joined, together.steps, together.wasted, together.reached, together.sent]
    assert (*(column[0] for column in columns), together.seconds) == expected
    alone = unequal.client_outcome(1, 0)  # the same, of a client that starts by itself
    joined, _, wasted, reached, sent, length = expected
    assert (alone.left, alone.seconds) == (not joined, length)
    assert (alone.reached, alone.sent) == (reached, sent)
    assert alone.steps == (0 if joined else wasted)


@pytest.mark.parametrize(
    ("dropout", "deadline", "wasted"),
    [
        (Dropout(before=1.0), np.inf, [0, 0]),
        (Dropout(during=1.0), np.inf, [4, 4]),  # no time passes between its steps
        (Dropout(), 1.5, [0, 0]),  # the first is in time, the second has not received the model
    ],
)
def test_steps_that_take_no_time_still_wait_for_the_model(dropout, deadline, wasted):
    """The first client receives the model after 1 s, the second after 2 s; steps take 0 s."""
    links = lambda clients, rng: Rates(down=np.array([10.0, 5.0]), up=np.inf)
    fleet = Fleet(speed=speed_of([0.0, 0.0]), links=links, dropout=dropout, deadline=deadline)
    unequal = machines(fleet, [4, 4], down=10, up=20)
    outcome = unequal.round_outcome(1, np.array([0, 1]))
    assert outcome.wasted.tolist() == wasted
    if any(dropout):
        alone = [unequal.client_outcome(1, client) for client in (0, 1)]
        assert [client.steps for client in alone] == wasted
        assert [client.reached for client in alone] == outcome.reached.tolist()


def test_expected_messages_are_fewer_where_clients_leave():
    fleet = {
        "dropout": Dropout(0.125, 0.25, 0.125),
        "availability": own_kinds_of("availability")["bernoulli"](rate=0.5),
    }
    shares = plan_of(own_kinds_of("cohort")["poisson"](rate=0.5), fleet, sizes=(1, 0, 2)).shares
    assert shares is not None and shares.tolist() == [0.125, 0.0, 0.125]


def test_every_kind_has_a_case():
    assert set(map(kind_of, REACHED)) == set(own_kinds_of("availability"))
    assert set(SPEEDS) == set(own_kinds_of("speed"))
    assert set(LINKS) == set(own_kinds_of("link"))

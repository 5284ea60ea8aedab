"""Names of methods and rows say in which codecs or settings of a round they differ."""

from itertools import product

from runs_with_costs import concluded

from fedsim.report.context import context_of
from fedsim.report.pictures.costs import cost_pictures
from fedsim.study.cost_axes import BYTES, TIME, is_about_cost, timed
from fedsim.study.methods import methods_of
from fedsim.study.words import call_of

TOP_K = {"kind": "error_feedback", "codec": {"kind": "top_k", "k": 9}}


def groups(axis, variants, methods=("fedavg",)) -> dict[str, list[str]]:
    """Names of the rows that are compared with each other, by what else varies."""
    runs, courses = [], []
    for number, (method, variant) in enumerate(product(methods, variants), 1):
        run = {"method": method, "variant": variant, "seed": 0}
        runs.append({**run, "metric": "test_accuracy", "final": 0.5, "diverged": 0})
        spent = {"bytes_up": 10 * number, "bytes_down": 1, "virtual_seconds": float(number)}
        courses.append({**run, "round": 1, "clients_sampled": 1, "test_accuracy": 0.5, **spent})
    rows = concluded(runs, courses, "fedavg")[axis.table]
    pictures = cost_pictures(axis, rows, "fedavg", context_of({}, runs))
    return {picture.title: [point.name for point in picture.points] for picture in pictures}


def test_rows_of_one_method_are_named_by_their_codecs():
    wires = ["[]", "[cast]", "[{kind: error_feedback, codec: {kind: top_k, k: 9}}]"]
    variants = [f"wire={wire}, client.lr={lr}" for wire, lr in product(wires, (1, 2))]
    # the front first, then the most expensive
    names = ["nothing", "error_feedback(top_k(k=9))", "cast"]
    rates = ["client learning rate 1", "client learning rate 2"]
    assert groups(BYTES, variants) == dict.fromkeys(rates, names)
    more = groups(BYTES, variants, ["fedavg", "scaffold"])
    assert "fedavg, cast" in more[rates[0]]


def test_settings_of_a_round_are_compared_and_machines_are_not():
    variants = [f"fleet.deadline={t}, fleet.speed={kind}" for t, kind in product((1, 2), "ab")]
    in_time = groups(TIME, variants)
    assert len(in_time) == 2
    assert set(map(tuple, in_time.values())) == {("deadline 1 s", "deadline 2 s")}


def test_a_comparison_is_about_bytes_where_codecs_differ_and_about_time_where_rounds_do():
    (method,) = methods_of([{"method": "fedavg", "set": {"wire": [TOP_K]}}])
    assert method.label == "fedavg[wire=error_feedback(top_k(k=9))]"
    assert call_of([TOP_K, "cast"]) == "error_feedback(top_k(k=9)) → cast"
    assert call_of([]) == "as sent"
    for compare, wanted in (
        ({"methods": [method.entry]}, True),
        ({"methods": ["fedavg"]}, False),
        ({"vary": {"wire": ["[]", "[cast]"]}}, True),
        ({"vary": {"wire": ["[]", "[sign_flip]"]}}, False),
        ({"vary": {"wire": ["[cast, sign_flip]"]}}, False),
        (None, False),
    ):
        assert is_about_cost(BYTES, {"compare": compare}) is wanted, compare
    assert timed({"compare": {"vary": {"schedule": ["sync", "fedbuff"]}}})
    assert not is_about_cost(TIME, {"fleet": {"deadline": 9.0}})

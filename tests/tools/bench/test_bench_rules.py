"""Rules are timed beside NumPy and other libraries, whose programs return the same or a reason."""

import sys

import numpy as np
import pytest
from conftest import if_whole

import fedsim
from fedsim.errors import LostError
from fedsim.tools.bench import peers
from fedsim.tools.bench.peers import Peer, Tool
from fedsim.tools.bench.plain_rules import NUMPY
from fedsim.tools.bench.rules import LINKS, bench_rules

pytestmark = [pytest.mark.long, pytest.mark.optimised]

NOISE = {"flame": 0.06}  # six standard deviations of the difference of two draws


@if_whole
def test_rules_beside_numpy():
    """NumPy's side computes the same thing, or it would be no comparison."""
    x = np.random.default_rng(1).normal(size=(50, 60)).astype(np.float32)
    assert LINKS.keys() == NUMPY.keys()
    for name, links in LINKS.items():
        ours = np.asarray(fedsim.aggregate(links, x))
        noise = NOISE.get(name, 1e-5)
        np.testing.assert_allclose(NUMPY[name](x), ours, rtol=1e-4, atol=noise, err_msg=name)
    records = list(bench_rules(lambda text: None, [(30, 50)]))
    assert len(records) == 2 * (len(LINKS) - 1) and all(record["seconds"] > 0 for record in records)


@pytest.fixture
def played(tmp_path, monkeypatch):
    """A library of one rule in this Python, whose program has the given last line."""

    def write(last_line="print('noise'); print(json.dumps({'mean': 0.5}))"):
        (tmp_path / "played_rules.py").write_text(f"import json\n{last_line}\n")
        return Peer("played", "1.5", sys.executable)

    monkeypatch.setattr("fedsim.tools.bench.rules.FOREIGN", tmp_path)
    monkeypatch.setitem(peers.TOOLS, "played", Tool((), "", rules="played_rules.py"))
    few = {name: LINKS[name] for name in ("mean", "krum")}
    monkeypatch.setattr("fedsim.tools.bench.rules.LINKS", few)
    return write


def test_a_peer_stands_beside_the_rules_that_it_has(played):
    records = list(bench_rules(lambda text: None, [(30, 50)], [played()]))
    assert [record["how"] for record in records] == [
        "fedsim", "NumPy, two threads", "played", "fedsim", "NumPy, two threads",
    ]  # fmt: skip
    ours, _, theirs = records[:3]
    assert theirs["version"] == "1.5" and "version" not in ours
    assert theirs["least"] == theirs["seconds"] == theirs["most"] == 0.5
    assert theirs["times_lanes"] == 0.5 / ours["seconds"]


def test_a_peer_that_fails_says_why(played):
    with pytest.raises(LostError, match="played: ZeroDivisionError"):
        list(bench_rules(lambda text: None, [(30, 50)], [played("1 / 0")]))

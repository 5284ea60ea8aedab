"""Every codec is measured, with parameters of its own, beside a round."""

import math

import pytest
from conftest import if_whole

from fedsim.compose import FAMILIES
from fedsim.scenario import read
from fedsim.tools.bench.codecs import PARAMETERS, bench_codecs, codec_of


@if_whole
@pytest.mark.long
def test_every_codec_is_timed_beside_a_round(root):
    small = ("rounds=2", "data.samples=600", "data.clients=20", "cohort.size=6")
    first, *others = bench_codecs(
        read(root / "scenarios/bench/w1.yaml", small), lambda text: None, 7, 600
    )
    assert first["workload"] == "w1"
    assert all(r["times_lanes"] == r["seconds"] / first["seconds"] for r in others)
    ours, plain = others[::2], others[1::2]
    for records in (ours, plain):
        assert [r["workload"].split()[0] for r in records] == sorted(FAMILIES["codec"])
    assert all(r["how"] == "NumPy, one thread" for r in plain)
    assert all(r["seconds"] > 0 for r in others)
    sizes = {r["workload"].split()[0]: r["message_bytes"] for r in ours}
    assert sizes["cast"] == 1200
    assert sizes["top_k"] == sizes["error_feedback"] == math.ceil(6 * (32 + 10) / 8)


def test_the_bench_has_parameters_for_every_codec():
    for kind in FAMILIES["codec"]:
        assert codec_of({"kind": kind, **PARAMETERS.get(kind, {})}).name

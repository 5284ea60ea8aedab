"""Thousands of spoiled scenarios: each is read, or refused in lines that say where."""

import re
import time
from collections import Counter

import pytest
from conftest import ROOT, WHOLE, if_all_installed
from hostile.mutations import MUTATIONS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedsim.errors import ScenarioError
from fedsim.scenario import read
from fedsim.scenario.reader import Document, parse

MANY = 10_000 if WHOLE else 400
MORE = """name: more
rounds: 3
seeds: [0, 1]
method: fedprox(mu=0.1)
data:
  kind: synthetic
  partition: {kind: quantity, distribution: lognormal, sigma: 1.0}
  server: {samples: 20}
model: {kind: cnn, channels: [4, 8], loss: cross_entropy}
fleet:
  malicious: [0, 3]
cohort: {kind: listed, rounds: [[0, 1], [2]]}
client:
  lr: {kind: exponential_decay, init_value: 1e-1, transition_steps: 5, decay_rate: 0.5}
  batch: full
  steps: [4, 7]
  optimizer: {kind: adam, b1: 0.9}
wire: [sign_flip, {kind: gaussian, std: 2.0}]
server:
  - {kind: clip, norm: 2.0}
  - mean
numerics: {dtype: float64, lanes: auto}
"""
PLACELESS = "larger than|not YAML: Exceeds the limit"  # of the file as a whole
number = st.integers(0, 2**16)
steps = st.lists(
    st.tuples(st.integers(0, len(MUTATIONS) - 1), number, number), min_size=1, max_size=3
)


def shipped() -> list[str]:
    """The scenarios that come with fedsim, and one that uses more of the keys."""
    texts = [path.read_text() for path in sorted((ROOT / "scenarios").rglob("*.yaml"))]
    whole = [text for text in texts if not re.search("^extends:", text, re.MULTILINE)]
    return [re.sub(r"^#.*\n", "", text, flags=re.MULTILINE) for text in whole] + [MORE]


TEXTS = shipped()


def understood(content: bytes, path):
    """A scenario file, read; text is not written to a file, which would take most of the time."""
    try:
        return read(parse(content.decode(), str(path)))
    except UnicodeDecodeError:
        path.write_bytes(content)
        return read(path)


def judged(content: bytes, path) -> str:
    """`read` if a scenario file is read, and back; `refused` if it is, in lines that say where."""
    began = time.thread_time()
    try:
        scenario = understood(content, path)
    except ScenarioError as error:
        lines = str(error).splitlines()
        last = content.count(b"\n") + content.count(b"\r") + 1
        for line in lines:
            position = re.match(r"f\.yaml(?::(\d+):(\d+))?: ", line.replace(str(path), "f.yaml"))
            assert position and line.isprintable() and len(line) < 330 + len(str(path)), line
            is_in_file = position[1] and 1 <= int(position[1]) <= last
            assert is_in_file or (not position[1] and re.search(PLACELESS, line)), line
        return "refused"
    finally:
        assert time.thread_time() - began < 30  # a hang, not a slow machine
    resolved = scenario.resolved()
    again = read(Document(resolved, {}, "again"))
    assert again.hash() == scenario.hash() and again.resolved() == resolved
    return "read"


@if_all_installed
@pytest.mark.long
def test_thousands_of_spoiled_scenarios_are_read_or_refused(tmp_path_factory):
    path, outcomes = tmp_path_factory.mktemp("spoiled") / "f.yaml", Counter()

    @settings(
        max_examples=MANY,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, len(TEXTS) - 1), steps)
    def spoiled(which, mutations):
        text = TEXTS[which]
        for mutation, where, detail in mutations:
            text = MUTATIONS[mutation](text, where, detail)
        outcomes[judged(text.encode("utf-8", "surrogateescape"), path)] += 1

    assert {judged(text.encode(), path) for text in TEXTS} == {"read"}
    began = time.process_time()
    spoiled()
    assert (time.process_time() - began) / MANY < 0.02  # seconds for one
    assert outcomes["read"] > MANY / 20
    assert outcomes["refused"] > MANY / 2
    assert outcomes.total() >= MANY

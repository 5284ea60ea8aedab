"""After a power cut a run resumes from one of its two commits: some of `powercut`'s states."""

import shutil
import warnings

import powercut
import pytest
from directories import bits, tiny, whole

import fedsim
from fedsim.engine import store

ROUNDS = 3


@pytest.fixture(scope="module")
def taped(tmp_path_factory):
    """A recorded run, with client memory in a file that is compacted, and its bits."""
    out = tmp_path_factory.mktemp("taped") / "run"
    out.mkdir()
    spare, store.SPARE = store.SPARE, 0
    with powercut.Tape(out) as tape:
        fedsim.run(tiny(0.0, seeds=[0]), out=out)
    store.SPARE = spare
    there = {
        str(path.relative_to(out)): None if path.is_dir() else path.read_bytes()
        for path in out.rglob("*")
    }
    assert powercut.state(tape.steps) == there  # the tape recorded everything
    return tape, bits(out)


@pytest.mark.long
def test_the_newest_commit_is_never_lost(taped, tmp_path):
    steps = taped[0].steps
    seed = next(step.other for step in steps if step.name == "mkdir" and step.entry == "scaffold.0")
    moments = range(0, len(steps), 3)
    cuts = powercut.thinned(list(powercut.cuts(steps, moments=moments)), 120)
    numbers = set()
    for cut in cuts:
        lasting, newest = powercut.allowed(steps, cut.moment).get(seed, (0, 0))
        cut.make(tmp_path / "cut")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            number = powercut.resumed_commit(tmp_path / "cut/checkpoints/scaffold.0", ROUNDS)
        assert lasting <= number <= newest, cut.moment
        numbers.add(number)
        shutil.rmtree(tmp_path / "cut")
    assert len(cuts) == 120 and numbers >= {0, 1, 2}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*resuming from the commit before")
def test_runs_resumed_after_a_power_cut_end_with_equal_bytes(taped, tmp_path):
    steps = taped[0].steps
    for i, cut in enumerate(
        powercut.thinned(list(powercut.cuts(steps, moments=range(5, len(steps), 11))), 10)
    ):
        cut.make(tmp_path / str(i))
        fedsim.run(tiny(0.0, seeds=[0]), out=tmp_path / str(i), resume=True)
        whole(tmp_path / str(i), taped[1])


def test_a_write_without_a_flush_may_be_lost_whole_or_in_part(tmp_path):
    """The enumeration itself: flushed bytes stay; others are there, gone, or torn."""
    create, write = powercut.Step("create", 0, "f", 1), powercut.Step("write", 1, data=b"abcd")
    seen = {frozenset(cut.files.items()) for cut in powercut.cuts([create, write], ordered=False)}
    states = [{}, {"f": b""}, {"f": b"abcd"}, {"f": b"ab"}, {"f": b"\0\0\0\0"}, {"f": b"\0\0cd"}]
    assert seen == {frozenset(state.items()) for state in states}
    flushed = [create, powercut.Step("fsync", 0), write, powercut.Step("fsync", 1)]
    assert [cut.files for cut in powercut.cuts(flushed, moments=[4])] == [{"f": b"abcd"}]

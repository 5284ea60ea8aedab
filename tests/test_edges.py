"""Edges that a small fault moves: bounds and defaults, ties, one of something or none of it, the ends of blocks."""

import inspect
import itertools
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

import fedsim
from fedsim.compose import FAMILIES
from fedsim.disk import files
from fedsim.disk.checkpoint import Snapshot, encode
from fedsim.disk.rowfile import HEAD, RowFile
from fedsim.engine import store
from fedsim.engine.memory import Memories, Memory
from fedsim.errors import CheckpointError, DirectoryError
from fedsim.fleet import selection
from fedsim.rules import sorting
from fedsim.rules.divide_and_conquer import drawn
from fedsim.rules.geometric_median import _search_points
from fedsim.rules.krum import krum_scores
from fedsim.rules.subsets import MOST, most_rows
from fedsim.runs import commits, directory
from fedsim.runs.commits import committed
from fedsim.runs.journal import Journal, Pace
from fedsim.study import pairing, standings, statistics
from fedsim.study.breakdown import breakdown
from fedsim.types import Context, by_samples, reported
from tests.cohorts import cohort_of

pytestmark = pytest.mark.usefixtures("quickly_compiled")

# ------------------------------------------------------------------------------------------------------ rules

FROM_0, ABOVE_0, FROM_1, DECAY = ((0,), (-0.5,)), ((0.5,), (0.0,)), ((1,), (0,)), ((0.0, 0.5), (-0.1, 1.0))
ABOVE_0_TO_1, SHARE = ((0.1, 1.0), (0.0, 1.1)), ((0.0, 1.0), (-0.1, 1.1))
ITERATIONS = ((1, 100_000), (0, 100_001))
ALLOWED: dict[str, dict[str, dict[str, tuple]]] = {  # of every parameter: values that are taken, and some that are not
    "rule": {
        "agnostic": {"lr": FROM_0}, "centered_clipping": {"radius": ABOVE_0, "iterations": ITERATIONS}, "dyn": {"alpha": ABOVE_0},
        "fedexp": {"eps": FROM_0}, "geometric_median": {"smoothing": FROM_0, "iterations": ITERATIONS},
        "rfa": {"smoothing": ABOVE_0, "iterations": ITERATIONS}, "krum": {"f": ((0,), (-1,)), "neighbours": FROM_1},
        "multi_krum": {"f": ((0,), (-1,)), "select": FROM_1, "neighbours": FROM_1}, "q_fair": {"q": FROM_0, "L": ABOVE_0},
        "trimmed_mean": {"trim": ((0,), (-1,))},
    },
    "optimizer": {
        "fedavgm": {"lr": FROM_0, "momentum": DECAY, "dampening": DECAY},
        "fedadagrad": {"lr": FROM_0, "b1": DECAY, "tau": ABOVE_0, "v0": FROM_0},
        "fedadam": {"lr": FROM_0, "b1": DECAY, "b2": DECAY, "tau": ABOVE_0, "v0": FROM_0},
        "fedyogi": {"lr": FROM_0, "b1": DECAY, "b2": DECAY, "tau": ABOVE_0, "v0": FROM_0},
    },
    "cohort": {
        "uniform": {"size": FROM_1}, "weighted": {"size": FROM_1}, "cyclic": {"size": FROM_1},
        "poisson": {"rate": ((0.5, 1.0), (0.0, 1.5))},
        "listed": {"rounds": (([[0]], [[0, 0], [1]]), ([], [[]], [[-1]]))},
        "power_of_choice": {"size": FROM_1, "candidates": FROM_1}, "divfl": {"size": FROM_1, "candidates": FROM_1},
        "clustered": {"size": FROM_1}, "round_robin_by_class": {"size": FROM_1}, "least_participated": {"size": FROM_1},
        "importance": {"size": FROM_1, "floor": ABOVE_0_TO_1},
        "fedcs": {"seconds": ABOVE_0, "candidates": FROM_1, "size": FROM_1},
        "tifl": {"size": FROM_1, "tiers": FROM_1, "weights": (([0.0], [1.0, 0.0]), ([], [-0.1]))},
        "oort": {
            "size": FROM_1, "explore": SHARE, "decay": ABOVE_0_TO_1, "least": SHARE, "preferred": ABOVE_0_TO_1, "alpha": FROM_0,
            "cutoff": ABOVE_0_TO_1, "clip": ABOVE_0_TO_1, "most": FROM_1,
        },
    },
}  # fmt: skip


@pytest.mark.parametrize("family", ALLOWED)
def test_what_is_allowed_beside_defaults_of_parameters(family):
    for kind, parameters in ALLOWED[family].items():
        signature = inspect.signature(FAMILIES[family][kind])
        for name, (allowed, refused) in parameters.items():
            adapter: Any = TypeAdapter(signature.parameters[name].annotation)
            for value in allowed:
                assert adapter.validate_python(value) == value, (kind, name)
            for value in refused:
                with pytest.raises(ValidationError):
                    adapter.validate_python(value)


def test_of_power_of_choice_every_candidate_is_another():
    cohort = selection.power_of_choice(4, 4)
    population = selection.Population(np.arange(4), np.array([1, 1, 1, 40]), np.full(4, np.nan))
    for seed in range(5):
        assert cohort.draw(population, 1, np.random.default_rng(seed)).tolist() == [0, 1, 2, 3]


def test_defaults_of_rules_weigh_by_what_they_say():
    made = FAMILIES["rule"]
    assert made["geometric_median"]().weights is reported and made["rfa"]().weights is by_samples
    assert made["geometric_median"](weights="samples").weights is by_samples
    assert made["geometric_median"]().bound and made["geometric_median"](smoothing=0.1).bound is None
    assert made["geometric_median"](iterations=5).bound is None and made["krum"](1, neighbours=2).bound is None


def test_defaults_of_rules_that_are_linear_and_of_their_least():
    made = FAMILIES["rule"]
    assert (
        all(made[kind]().linear for kind in ("mean", "mean_over_all", "horvitz_thompson"))
        and not made["median"]().linear
    )
    expected = made["mean"](denominator="expected")
    assert (
        (made["mean"]().least, expected.least) == (1, 0) and expected.needs == {"expected"} and not made["mean"]().needs
    )
    updates, one = cohort_of({"w": jnp.array([[2.0], [4.0]])}), jnp.float32(1)
    context = Context(jax.random.key(0), jnp.int32(1), one, one, {}, jnp.arange(2), jnp.zeros(2, bool), None, 4.0)
    context = context._replace(expected=4 * one, expected_samples=8 * one)
    for weights, wanted in (("samples", 6 / 8), ("uniform", 6 / 4)):
        step, _, _ = made["mean"](weights=weights, denominator="expected").apply(updates, (), context)
        assert step["w"].tolist() == [wanted]
    with pytest.raises(ValueError, match="denominator: actual"):
        made["mean"](weights="steps", denominator="expected")


def test_divide_and_conquer_draws_different_coordinates_for_every_iteration():
    rows = {"a": jnp.zeros((3, 4)), "b": jnp.zeros((3, 2, 3))}
    some = np.asarray(drawn(jax.random.key(0), rows, 3, 5, 4))
    assert (
        some.shape == (5, 4)
        and all(len(set(chosen)) == 4 for chosen in some.tolist())
        and len(set(map(tuple, some))) > 1
    )
    assert (
        set(some.ravel()) <= set(range(10)) and drawn(jax.random.key(0), rows, 3, 2, 99).tolist() == [[*range(10)]] * 2
    )
    assert most_rows(0) is None and most_rows(1) == MOST and most_rows(5) == 31


def test_how_often_a_round_draws_each_client():
    population = selection.Population(np.array([0, 2, 5]), np.array([1, 1, 2]))
    share = lambda cohort: np.broadcast_to(cohort.share(population), 3).tolist()
    assert share(selection.all()) == [1.0] * 3 and share(selection.poisson(0.25)) == [0.25] * 3
    assert share(selection.uniform(2)) == share(selection.cyclic(2)) == [2 / 3] * 3
    assert share(selection.weighted(3)) == [0.75, 0.75, 1.5]
    assert share(selection.listed([[0, 0], [2, 0]])) == [1.5, 0.5, 0.0] and share(selection.listed([[5]])) == [0, 0, 1]
    assert share(selection.listed([[0]])) == [1, 0, 0]
    assert selection.power_of_choice(2, 3).share is None and selection.power_of_choice(2, 3).needs == {"loss"}
    assert selection.power_of_choice(2, 3).nominal(9) == 2 and selection.power_of_choice(2, 2)
    with pytest.raises(ValueError, match="2 candidates for a cohort of 3"):
        selection.power_of_choice(3, 2)


def test_of_power_of_choice_unknown_losses_come_first_and_infinite_ones_last():
    population = selection.Population(np.arange(5, 10), np.ones(5), np.array([0.5, np.inf, 2.0, np.nan, 2.0]))
    chosen = [
        selection.power_of_choice(k, 5).draw(population, 1, np.random.default_rng(0)).tolist() for k in range(1, 6)
    ]
    assert chosen[4] == [8, 7, 9, 5, 6] and all(part == chosen[4][: len(part)] for part in chosen)


def test_q_fair_looks_at_no_loss_of_who_is_absent():
    loss, rows = [0.5, float("nan")], [[1.0], [5.0]]
    alone = fedsim.aggregate({"kind": "q_fair", "q": 1.0}, rows, weights=[1, 0], loss=[0.5, 0.5])
    assert fedsim.aggregate({"kind": "q_fair", "q": 1.0}, rows, weights=[1, 0], loss=loss) == alone != 0


def test_fedexp_of_updates_that_cancel_stays_where_it_is():
    assert fedsim.aggregate({"kind": "fedexp", "eps": 0.0}, [[1.0], [-1.0]]).tolist() == [0.0]


def test_horvitz_thompson_of_one_message():
    for samples in (1.0, 5.0):
        assert fedsim.aggregate("horvitz_thompson", [[2.0], [4.0]], weights=[samples, 0.0]).tolist() == [2.0]


def test_krum_measures_all_others_where_there_are_fewer_than_neighbours():
    rows = {"w": jnp.array([[9.0], [0.0], [1.0], [3.0], [50.0]])}
    updates = cohort_of(rows, jnp.array([True, True, True, True, False]))
    wanted = [81 + 64 + 36, 81 + 1 + 9, 64 + 1 + 4, 36 + 9 + 4, np.inf]
    for neighbours in (3, 9):
        np.testing.assert_allclose(jax.jit(lambda u, k=neighbours: krum_scores(u, 0, k))(updates), wanted, rtol=1e-6)


def test_multi_krum_of_equal_rows_takes_the_lowest_indices():
    first = jnp.arange(64) < 5
    context = Context(
        jax.random.key(0), jnp.int32(1), jnp.float32(64), jnp.float32(0.5), {}, jnp.arange(64), first, None, 64.0
    )
    _, _, info = jax.jit(FAMILIES["rule"]["multi_krum"](1, select=5).apply)(
        cohort_of({"w": jnp.zeros((64, 1))}), (), context
    )
    assert info["malicious_kept"] == 5 and info["recall"] == 0.0


def test_agnostic_starts_with_equal_weights_of_those_who_can_take_part():
    present = jnp.array([True, False, True, True, True])
    rule = FAMILIES["rule"]["agnostic"]()
    assert rule.init({"w": jnp.ones(2)}, present).lambda_.tolist() == [0.25, 0, 0.25, 0.25, 0.25]
    assert rule.init({"w": jnp.ones(2)}, present & False).lambda_.tolist() == [0] * 5


@pytest.mark.parametrize("unit", [1.0, 2.0**20])
@pytest.mark.parametrize(
    ("rows", "weights", "at"),
    [
        (
            [[0, 0, 0], [0.4992440640926361, 0.8664613962173462, 0], [0.4992440640926361, -0.8664613962173462, 0]],
            [1, 1, 1],
            0,
        ),
        ([[-2, 1, 2], [-3, -1, 3], [-2, 0, 3]], [2, 3, 1], 1),
    ],
)
def test_a_geometric_median_that_is_a_row_is_that_row_to_the_bit(rows, weights, at, unit):
    """A row that sees two others under an angle just above 120°, and one with half of the weight."""
    stacked = unit * np.float32(rows)
    found = fedsim.aggregate({"kind": "geometric_median", "weights": "samples"}, stacked, weights=weights)
    assert found.tolist() == stacked[at].tolist()


def test_a_geometric_median_near_a_row_is_not_jumped_past_again_and_again():
    rows = jnp.array([[-1.0, 0], [2, 0], [3, -2], [-2, -2], [-3, -3], [-2, -1], [2, -1]])
    found = jax.jit(lambda rows: _search_points(rows, jnp.full(7, 1 / 7), 0.0, None))(rows)
    np.testing.assert_allclose(found, [-0.6620109, -1.09052399], atol=5e-5)  # of Weiszfeld's iteration in float64


def test_order_statistics_of_leaves_that_take_several_blocks_and_one(monkeypatch):
    """Leaves wider than a block end in one that overlaps the one before; the last is narrower than a block."""
    rng = np.random.default_rng(3)
    stacked = [jnp.asarray(rng.normal(size=(2, D)), jnp.float32) for D in (2**18 + 77, 140_001, 5)]
    stacked[2] = jnp.float32([[0, -1, -0.0, 2, jnp.nan], [0, 1, 3, -2, 4]])
    stacked += [jnp.float16([[3, -4, 0], [2, 7, 0]]), jnp.zeros((2, 0))]
    ends = lambda ranks: ranks.at(jnp.int32(0)) + ranks.sum(1, jnp.int32(1))
    for written_out in (128, 1):  # and layer by layer, as for many rows
        monkeypatch.setattr(sorting, "WRITTEN_OUT", written_out)
        monkeypatch.setattr(sorting, "FEW", written_out)
        both = jax.jit(lambda stack: sorting.by_sorted_columns(ends, stack, jnp.ones(2, bool)))(stacked)
        for leaf, row in zip(stacked, both, strict=True):
            there = jnp.where(jnp.isnan(leaf), jnp.inf, leaf)
            np.testing.assert_array_equal(row, there[0] + there[1] if leaf.size else leaf[0], strict=True)


@pytest.mark.parametrize("shapes", [[(3,), (2, 2), ()], [(), (300_000,), (2, 2), (140_001,), (3,)]])
def test_narrow_leaves_that_stand_together_come_back_as_they_were(shapes):
    rng = np.random.default_rng(4)
    stacked = [jnp.asarray(rng.normal(size=(3, *shape)), jnp.float32) for shape in shapes]
    middle = lambda ranks: ranks.at(jnp.int32(1))
    medians = jax.jit(lambda stack: sorting.by_sorted_columns(middle, stack, jnp.ones(3, bool)))(stacked)
    for leaf, row in zip(stacked, medians, strict=True):
        np.testing.assert_array_equal(row, np.median(leaf, axis=0), strict=True)


# ------------------------------------------------------------------------------------------------ persistence


def test_files_may_be_read_and_written_by_whom_the_user_lets(tmp_path):
    before = os.umask(0)
    try:
        files.write(tmp_path / "whole", b"x")
        files.append(tmp_path / "grown", 0, b"x")
        rows = RowFile(tmp_path, 0, 1, 1)
        rows.sync()
        rows.close()
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o7777 for path in tmp_path.iterdir()} == {0o666} and len(
        list(tmp_path.iterdir())
    ) == 3


def test_rows_beyond_a_chunk_are_written_anew_once_each(tmp_path):
    n = 2 * 4096 + 2
    file, values = RowFile(tmp_path, 0, 2, n), np.arange(2 * n, dtype=np.uint16).view(np.uint8).reshape(n, 4)[:, :2]
    file.append(np.arange(n), values)
    fresh = file.written_anew()
    assert fresh.length == n * (HEAD + 2) and np.array_equal(fresh.read(np.arange(n)), values)
    fresh.close()


def test_only_the_directory_of_a_file_must_be_the_one_that_was_locked(tmp_path, monkeypatch):
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    folder = os.open(mine, os.O_RDONLY)
    try:
        monkeypatch.setattr(files, "CLAIMS", {files.Claim(mine, folder, -1, "lock")})
        files.demand_claim(mine / "x")
        files.demand_claim(mine / "a" / "x")
        mine.rename(tmp_path / "renamed")
        for place in (mine / "x", mine / "a" / "x"):
            with pytest.raises(DirectoryError, match="renamed or replaced"):
                files.demand_claim(place)
        files.demand_claim(other / "x")
        mine.mkdir()  # another one of that name
        with pytest.raises(DirectoryError, match="renamed or replaced"):
            files.demand_claim(mine / "x")
    finally:
        os.close(folder)


def snapshot(round: int, status: str = "running") -> Snapshot:
    return Snapshot({"round": round, "status": status}, {})


def ended(folder) -> None:
    """A journal that ended after round 1, with a row after the mark."""
    kept = Journal(folder, {}, Pace(0.0, 1))
    kept.add("rounds", {"round": 1})
    kept.mark()
    kept.add("summary", {"final": 0.5})
    kept.commit(snapshot(1, "done"), [])


def test_a_run_that_ended_is_read_whole_unless_it_is_to_go_on(tmp_path):
    ended(tmp_path)
    whole, longer = committed(tmp_path, 1), committed(tmp_path, 2)
    assert whole and (set(whole.tables), whole.round, whole.status) == ({"rounds", "summary"}, 1, "done")
    assert longer and (set(longer.tables), longer.round, longer.status) == ({"rounds"}, 1, "running")


def test_a_log_that_was_damaged_or_cut_is_not_read(tmp_path):
    ended(tmp_path)
    log = tmp_path / commits.LOG
    text = log.read_bytes()
    for spoiled in (text.replace(b"0.5", b"0.6"), text[:-1], b""):
        log.write_bytes(spoiled)
        for read in (lambda: committed(tmp_path, 1), lambda: Journal(tmp_path, {}).last(1)):
            with pytest.raises(CheckpointError, match=r"does not fit log\.jsonl, which is damaged"):
                read()
    log.write_bytes(text + b"never committed")
    assert committed(tmp_path, 1) and Journal(tmp_path, {}).last(1)
    log.unlink()
    with pytest.raises(CheckpointError, match=r"state-000001\.ckpt: does not fit log\.jsonl"):
        committed(tmp_path, 1)


def test_a_run_that_failed_in_its_middle_keeps_its_end(tmp_path):
    kept = Journal(tmp_path, {})
    kept.add("rounds", {"round": 1})
    kept.mark()
    kept.add("summary", {"final": 0.5})
    kept.commit(snapshot(1, "diverged"), [])
    found, back = committed(tmp_path, 2), Journal(tmp_path, {})
    assert found and set(found.tables) == {"rounds", "summary"} and found.status == "diverged"
    assert back.last(2) and set(back.records) == {"rounds", "summary"}


def test_a_journal_that_nobody_can_read_is_said_to_be_so_once_it_holds_still(tmp_path, monkeypatch):
    ended(tmp_path)
    path, listed = tmp_path / "state-000001.ckpt", commits.commits
    path.write_bytes(b"nothing")
    asked = itertools.count()

    def listed_again(folder):
        assert next(asked) < 4, "it looks for ever"
        return listed(folder)

    monkeypatch.setattr(commits, "commits", listed_again)
    with pytest.raises(CheckpointError, match="is no fedsim checkpoint"):
        committed(tmp_path, 1)
    assert next(asked) == 2


def test_a_journal_whose_commits_change_meanwhile_is_read_again(tmp_path, monkeypatch):
    ended(tmp_path)
    path, listed = tmp_path / "state-000001.ckpt", commits.commits
    seen = iter([[tmp_path / "state-000000.ckpt"]])
    (tmp_path / "state-000000.ckpt").write_bytes(b"nothing")
    monkeypatch.setattr(commits, "commits", lambda folder: next(seen, None) or listed(folder)[1:])
    found = committed(tmp_path, 1)
    assert path.exists() and found and found.status == "done"


def test_a_warning_names_the_line_that_asked(tmp_path):
    kept = Journal(tmp_path, {})
    for round in (1, 2):
        kept.commit(snapshot(round), [])
    (tmp_path / "state-000002.ckpt").write_bytes(b"nothing")
    with pytest.warns(UserWarning, match="going on from the commit before") as caught:
        Journal(tmp_path, {}).last(9)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("round", [-1, 3])
def test_a_commit_of_a_round_that_cannot_be_is_damaged(tmp_path, round):
    kept = Journal(tmp_path, {})
    kept.commit(snapshot(round), [])
    with pytest.raises(CheckpointError, match=f"is of round {round}, and the run has 2"):
        Journal(tmp_path, {}).last(2)


def test_of_three_commits_the_oldest_is_taken_away(tmp_path):
    kept = Journal(tmp_path, {})
    for round in (1, 2):
        kept.commit(snapshot(round), [])
    newest = (tmp_path / "state-000002.ckpt").read_bytes()
    (tmp_path / "state-000003.ckpt").write_bytes(newest)  # as if the process had ended before it tidied up
    assert Journal(tmp_path, {}).last(2)
    assert [path.name for path in commits.commits(tmp_path)] == ["state-000002.ckpt", "state-000003.ckpt"]


@pytest.mark.parametrize(
    ("values", "reason"),
    [({"identity": {}}, "KeyError: 'log'"), ({"identity": {}, "log": 3, "files": [], "run": {"round": 1}}, "KeyError"),
     ({"identity": {}, "log": 3, "files": [], "run": {"round": None}}, "TypeError"),
     ({"identity": {}, "log": {}, "files": [], "run": {"round": "x"}}, "ValueError")],
)  # fmt: skip
def test_a_commit_that_is_whole_and_means_nothing_is_damaged(tmp_path, values, reason):
    (tmp_path / "state-000001.ckpt").write_bytes(b"".join(encode(Snapshot(values, {}))))
    with pytest.raises(CheckpointError, match=rf"state-000001\.ckpt: is damaged: {reason}"):
        Journal(tmp_path, {}).last(2)
    with pytest.raises(CheckpointError):
        committed(tmp_path, 2)


def test_a_file_that_the_user_names_may_be_a_link_or_a_device(tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for content, wanted in (("one", b"one"), (b"two", b"two")):
        files.write_named(tmp_path / "link", content)
        files.write_named(Path(os.devnull), content)
        assert (tmp_path / "file").read_bytes() == wanted and (tmp_path / "link").is_symlink()
    assert not Path(os.devnull).is_file()

    def unknown(path):
        raise OSError

    monkeypatch.setattr(files.shutil, "disk_usage", unknown)  # the room left is not known: it is not told
    with pytest.raises(DirectoryError, match=rf"^{tmp_path}/none/file.*: No such file or directory$"):
        files.write_named(tmp_path / "none" / "file", "x")


class TwoNumbers(Memories):
    """Clients that remember two numbers."""

    def __init__(self):
        pass

    def empty(self, start, places):
        return Memory({"w": jnp.zeros((places, 2))}, jnp.zeros(places, bool))


def test_memory_in_a_file_and_on_the_device_is_the_same_memory(tmp_path, monkeypatch):
    disk, ids = store.OnDisk(TwoNumbers(), {}, 3, 6, tmp_path), np.array([1, 4, 5])
    for step in (1.0, 2.0):
        memory, _ = disk.lend(ids)
        rows = memory.rows["w"].at[:2].add(step)
        disk.keep(ids, Memory({"w": rows}, jnp.array([True, True, False])))
    kept = disk.arrays(portable=True)
    assert kept["memory.ids"].tolist() == [1, 4] and kept["memory.rows"].view(np.float32).tolist() == [[3, 3], [3, 3]]
    device = store.Resident(TwoNumbers(), {}, ids, 3, 6)
    assert device.arrays()["memory.ids"].tolist() == []
    device.restore({})
    device.restore(kept)
    known, rows = device.rows(np.array([1, 5, 0]))
    assert known.tolist() == [True, False, False] and rows["w"][0].tolist() == [3, 3]
    assert {name: array.tolist() for name, array in device.arrays().items()} == {n: a.tolist() for n, a in kept.items()}
    again = store.OnDisk(TwoNumbers(), {}, 3, 6, tmp_path / "again")
    (tmp_path / "again").mkdir()
    again.restore(device.arrays())
    assert again.arrays(portable=True)["memory.rows"].tolist() == kept["memory.rows"].tolist()
    assert disk.arrays()["memory.file"].tolist() == [0, 4 * (HEAD + 8)]  # two rows, and two that newer ones replaced
    monkeypatch.setattr(store, "SPARE", -1)
    assert disk.arrays()["memory.file"].tolist() == [1, 2 * (HEAD + 8)] and disk.files() == ["memory-1.rows"]
    assert disk.lend(ids)[0].rows["w"].tolist() == [[3, 3], [3, 3], [0, 0]]
    for one in (disk, again):
        one.file.close()


def test_a_record_that_is_no_file_and_a_lock_whose_holder_says_nothing(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / directory.RECORD)
    with pytest.raises(DirectoryError, match="is no regular file"):
        directory.read_record(tmp_path)
    waits: list[float] = []
    monkeypatch.setattr(directory.time, "sleep", waits.append)
    lock = tmp_path / "lock"
    for content, by in ((b"", "by another process"), (b"3", "by another process"),
                        (b'{"host": "x", "pid": 7, "since": "then"}', "by process 7 on another machine since then")):  # fmt: skip
        lock.write_bytes(content)
        assert f"in use {by}; wait" in directory._holder(tmp_path, os.open(lock, os.O_RDONLY))
    assert len(waits) == 20


def test_numbers_of_commits():
    assert commits.number_of("state-000012.ckpt") == 12 and commits.number_of("state-1000000.ckpt") == 1_000_000
    others = ("state-12.ckpt", "state-0000012.ckpt", "state-000012.ckpt.tmp", "log.jsonl", "state--00012.ckpt")
    assert [commits.number_of(name) for name in others] == [-1] * 5


def test_commits_of_the_first_and_of_the_last_round_are_gone_on_from(tmp_path):
    for round in (0, 2):
        kept = Journal(tmp_path / str(round), {})
        (tmp_path / str(round)).mkdir()
        kept.commit(snapshot(round), [])
        found = Journal(tmp_path / str(round), {}).last(2)
        assert found and found.values["round"] == round


# ------------------------------------------------------------------------------------------------- statistics


def test_from_seventeen_pairs_on_signs_are_drawn():
    assert statistics.smallest_p(16) == 2.0**-15 and statistics.smallest_p(17) == 1 / 65537
    assert statistics.sign_flip(np.ones(16)) == 2.0**-15 and statistics.sign_flip(np.ones(17)) >= 1 / 65537


def rows_of(method: str, scores: dict[int, float], **more) -> list[dict]:
    return [
        {"method": method, "seed": seed, "metric": "test_accuracy", "final": value, "diverged": 0, **more}
        for seed, value in scores.items()
    ]


def test_methods_are_told_apart_by_the_seeds_that_both_have():
    base, other = dict.fromkeys(range(8), 0.5), dict.fromkeys(range(2, 10), 0.6)
    rows = [*rows_of("base", base), *rows_of("other", other), *rows_of("apart", {20: 0.5})]
    assert pairing.told_apart(rows, "base", "final") == {"other": 2 / 2**6, "apart": None}
    rows[0]["status"] = rows[8]["status"] = "failed"  # seed 0 of `base`, 2 of `other`
    assert pairing.told_apart(rows, "base", "final") == {"other": 2 / 2**5, "apart": None}


def test_two_variations_are_enough_to_be_taken_together():
    rows = [*rows_of("a", {0: 0.1, 1: 0.2}, variant="x"), *rows_of("a", {0: 0.3, 1: 0.4}, variant="y")]
    found = pairing.scores_of(rows, "final")
    assert found and (found.variations, found.left_out, found.table.shape) == (2, 0, (1, 2, 2))
    assert pairing.scores_of(rows[:2], "final") is None and pairing.scores_of([], "final") is None


def test_a_score_at_most_two_points_above_chance_is_chance():
    scores = {"at": 0.5 + 0.02, "above": 0.5201, "far": 0.7, "below": 0.4}
    rows = [row for method, score in scores.items() for row in rows_of(method, {0: score})]
    (group,) = standings.standings([], rows, "at", "final", {"": 0.5}).values()
    assert {s.method: s.chance for s in group} == {"at": True, "above": False, "far": False, "below": True}


def test_a_standing_without_a_comparison_says_so():
    alone = standings.Standing("base", 0.5, None)
    assert alone.seeds == "0 of 0 seed better" and not alone.chance and (alone.better, alone.tied) == (0, 0)
    assert alone.benefit == 0.0 and not (alone.sure or alone.clear or alone.diverged)
    row = {"p_adjusted": 0.05, "ci_low": 0.0, "ci_high": 0.2, "seeds": 2, "diverged": 1, "metric": "test_loss"}
    made = standings.Standing("m", 0.5, {**row, "difference": 0.25, "probability_of_improvement": 0.0}, 1, 1)
    assert not (made.sure or made.clear or made.diverged) and made.benefit == -0.25
    assert made.seeds == "1 of 2 seeds better, 1 tied"
    made = made._replace(row={**row, "difference": None, "probability_of_improvement": 0.0, "ci_high": 0.0})
    assert made.benefit == 0.0  # not known: as if it were even
    sure = made._replace(row={**row, "p_adjusted": 0.049, "ci_low": -0.3, "ci_high": -0.1, "diverged": 2})
    assert sure.sure and sure.clear and sure.diverged
    one = made._replace(row={**row, "seeds": 1, "diverged": 1})
    assert one.diverged and one.seeds == "1 of 1 seed better, 1 tied"
    none = made._replace(row={**row, "seeds": 0, "diverged": 0, "difference": None})
    assert not none.diverged and none.benefit == 0.0 and none.seeds == "1 of 0 seed better, 1 tied"


def broken_at(means, values=(0, 1, 2, 3, 4), sds=None, seeds=None, start=0.1, larger=True):
    n = len(means)
    return breakdown(values[:n], means, sds or [0.0] * n, seeds or [5] * n, start, larger)


def test_where_a_method_breaks_down_by_hand():
    assert broken_at([0.9, 0.9, 0.4, 0.1, 0.1]) == 2 and broken_at([0.9, 0.4, 0.9, 0.1]) == 3
    assert broken_at([0.1, 0.1, 0.4, 0.8, 0.9]) == 2  # falls from its end to its start
    assert broken_at([0.1, 0.4, 0.9, 0.9]) == 1 and broken_at([0.1, 0.9]) == 0 and broken_at([0.9, 0.1]) == 1
    assert broken_at([0.9, 0.5, 0.5]) is None and broken_at([0.9, 0.1, 0.9]) is None  # half of the gain is enough
    assert broken_at([0.5, 0.25, 0.1], start=0.0) is not None and broken_at([0.5, 0.25, 0.25], start=0.0) is None
    assert broken_at([0.2, 1.9, 2.3], start=2.4, larger=False) == 1
    assert broken_at([np.nan, 0.9, np.nan, 0.1]) == 3 and broken_at([0.9, np.nan]) is None and broken_at([]) is None


def test_a_gain_that_cannot_be_told_from_none_breaks_down_nowhere():
    half = statistics.half_width_of(0.2, 4)
    for gain, wanted in ((half * 1.01, 1), (half * 0.99, None)):
        assert broken_at([gain, 0.0], sds=[0.2, 0.0], seeds=[4, 9], start=0.0) == wanted
    assert broken_at([0.1, 0.1]) is None and broken_at([0.1, 0.05]) is None and broken_at([0.05, 0.01]) is None
    assert broken_at([0.11, 0.1], sds=[None, None]) == 1

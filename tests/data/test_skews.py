"""Skews: what they change, what they leave alone, and labels that move with the rounds."""

import math
from operator import attrgetter

import jax
import numpy as np
import pytest
from conftest import own_kinds_of
from test_bits import digest, random_packing

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.data import Skew
from fedsim.data.shifts import groups_of
from fedsim.disk.tables import PARTITION, to_csv
from fedsim.errors import ScenarioError
from fedsim.fleet import Cohort, Local, Plan
from fedsim.fleet.plan import Conditions
from fedsim.scenario import read
from fedsim.study.label_skew import heterogeneity

RNG = np.random.default_rng(0)
CLASSES, N = 5, 7
IMAGES = fedsim.Arrays(
    RNG.integers(0, 256, (140, 6, 6, 2), np.uint8), np.arange(140) % CLASSES, scale=1 / 255
)
BASE = {"kind": "supplied", "clients": N, "test": 0.25, "validation": 0.1, "client_test": 0.3}
STRONG = {
    "feature_noise": {"std": 2.0},
    "rotation": {"max": 30.0},
    "label_noise": {"rate": 0.5},
    "concept_shift": {"groups": 3},
}
NEUTRAL = {
    "feature_noise": {"std": 0.0},
    "rotation": {"degrees": [0.0, 360.0]},
    "label_noise": {"rate": 0.0},
    "concept_shift": {"groups": 1},
}
SETS = ("train.x", "train.y", "test.x", "test.y", "validation.x", "validation.y")


def link(kind, **parameters):
    return {"kind": kind, **parameters}


def federation(*skews, data=IMAGES, seed=0, dtype="float32", **sections):
    section = {**BASE, "skew": list(skews)}
    numerics = {"dtype": dtype}
    scenario = {"name": "s", "data": section, "seeds": [seed], "numerics": numerics, **sections}
    return federations_of(read(scenario), data, np.dtype(dtype))[seed]


def same(one, other, names=SETS) -> bool:
    return all(np.array_equal(attrgetter(name)(one), attrgetter(name)(other)) for name in names)


def test_every_skew_is_in_the_tables():
    assert set(STRONG) == set(NEUTRAL) == set(own_kinds_of("skew"))


@pytest.mark.parametrize("kind", NEUTRAL)
def test_without_strength_nothing_changes(kind):
    plain, skewed = federation(), federation(link(kind, **NEUTRAL[kind]))
    assert same(plain, skewed)
    assert skewed.train.x.dtype == np.uint8
    assert plain.fingerprint() == skewed.fingerprint()
    assert not skewed.skews[f"skew/{kind}"].any()


@pytest.mark.parametrize("kind", STRONG)
def test_a_skew_is_decided_by_seed_and_client_alone(kind):
    skew = link(kind, **STRONG[kind])
    one, again = federation(skew), federation(skew, method="scaffold", rounds=9)
    assert same(one, again) and one.fingerprint() == again.fingerprint()
    part = "train.x" if kind in ("feature_noise", "rotation") else "train.y"
    assert not same(one, federation(skew, seed=1), [part])
    before = link("concept_shift" if part == "train.x" else "feature_noise")
    assert same(one, federation(before, skew), [part])  # its draws are its own


@pytest.mark.parametrize("kind", STRONG)
def test_only_the_clients_own_samples_change(kind):
    given = fedsim.Arrays(*(np.array(part) for part in (IMAGES.x, IMAGES.y)), scale=1 / 255)
    plain, skewed = federation(), federation(link(kind, **STRONG[kind]), data=given)
    assert np.array_equal(given.x, IMAGES.x) and np.array_equal(given.y, IMAGES.y)
    held = ("holders.indices", "holders.offsets", "test_holders.indices", "test_holders.offsets")
    assert same(plain, skewed, (*held, "test.y", "validation.y"))
    for name in ("test", "validation"):
        stored = getattr(plain, name).x.astype(np.float32) * np.float32(1 / 255)
        assert np.array_equal(getattr(skewed, name).x * np.float32(skewed.scale), stored)
    numbers = skewed.skews[f"skew/{kind}"]
    assert len(numbers) == N
    assert len(set(numbers.tolist())) == {"label_noise": 1, "concept_shift": 3}.get(kind, N)
    before, after = plain.fingerprint(), skewed.fingerprint()
    assert before["data"] == after["data"] and before["partition"] != after["partition"]


def test_own_test_samples_are_skewed_alike():
    plain, skewed = federation(), federation(link("rotation"), link("concept_shift", groups=4))
    assert skewed.train.x.dtype == np.uint8
    for client in range(N):
        turns = int(skewed.skews["skew/rotation"][client]) // 90
        group = int(skewed.skews["skew/concept_shift"][client])
        for rows in (plain.holders.of(client), plain.test_holders.of(client)):
            turned = np.rot90(plain.train.x[rows], turns, (1, 2))
            assert len(rows) and np.array_equal(skewed.train.x[rows], turned)
            assert np.array_equal(skewed.train.y[rows], (plain.train.y[rows] + group) % CLASSES)


def bilinear(image, degrees):
    """One image rotated counterclockwise: every pixel from the four around where it came from."""
    height, width, _ = image.shape
    out, angle = np.zeros(image.shape), math.radians(degrees)
    for i in range(height):
        for j in range(width):
            y, x = i - (height - 1) / 2, j - (width - 1) / 2
            row = math.cos(angle) * y + math.sin(angle) * x + (height - 1) / 2
            column = -math.sin(angle) * y + math.cos(angle) * x + (width - 1) / 2
            top, left = math.floor(row), math.floor(column)
            inside = 0 <= row <= height - 1 and 0 <= column <= width - 1
            for a, b in ((top, left), (top + 1, left), (top, left + 1), (top + 1, left + 1)):
                if inside and 0 <= a < height and 0 <= b < width:
                    out[i, j] += (1 - abs(row - a)) * (1 - abs(column - b)) * image[a, b]
    return out


def test_other_angles_are_interpolated():
    plain, skewed = federation(), federation(link("rotation", max=40.0), dtype="float64")
    assert skewed.train.x.dtype == skewed.test.x.dtype == np.float64 and skewed.scale == 1.0
    for client, angle in enumerate(skewed.skews["skew/rotation"]):
        assert 0 < abs(angle) <= 40
        row = plain.holders.of(client)[0]
        turned = bilinear(plain.train.x[row] / 255, angle)
        np.testing.assert_allclose(skewed.train.x[row], turned, atol=1e-12)


def test_images_that_are_not_square_keep_their_frame():
    x = RNG.normal(size=(40, 4, 6)).astype(np.float32)
    arrays = fedsim.Arrays(x, np.arange(40) % 2)
    half = federation(link("rotation", degrees=[180.0]), data=arrays)
    assert np.array_equal(half.train.x, federation(data=arrays).train.x[:, ::-1, ::-1])
    assert federation(link("rotation", degrees=[90.0]), data=arrays).train.x.shape[1:] == (4, 6)


def test_noise_grows_from_client_to_client():
    arrays = fedsim.Arrays(np.zeros((7000, 20)), np.arange(7000) % 2)
    f = federation(link("feature_noise", std=0.7), data=arrays)
    np.testing.assert_allclose(f.skews["skew/feature_noise"], 0.7 * np.arange(1, N + 1) / N)
    measured = [f.train.x[f.holders.of(k)].std() for k in range(N)]
    np.testing.assert_allclose(measured, f.skews["skew/feature_noise"], rtol=0.05)
    assert not f.test.x.any()
    drawn = federation(link("feature_noise", std=0.7, levels="uniform"), data=arrays)
    uniform = drawn.skews["skew/feature_noise"]
    assert (0 < uniform).all() and (uniform < 0.7).all()
    assert not np.array_equal(np.sort(uniform), uniform)


@pytest.mark.parametrize("flip", ["symmetric", "pair"])
def test_a_share_of_the_labels_is_wrong(flip):
    arrays = fedsim.Arrays(np.zeros((14000, 1)), np.arange(14000) % CLASSES)
    plain = federation(data=arrays)
    noisy = federation(link("label_noise", rate=0.4, flip=flip), data=arrays)
    expected = [1, 0, 0, 0] if flip == "pair" else [0.25] * 4
    for client in range(N):
        rows = plain.holders.of(client)
        moved = (noisy.train.y[rows] - plain.train.y[rows]) % CLASSES
        assert abs((moved > 0).mean() - 0.4) < 0.05
        shares = np.bincount(moved, minlength=CLASSES)[1:] / max((moved > 0).sum(), 1)
        np.testing.assert_allclose(shares, expected, atol=0.07)
    tests = plain.test_holders.indices
    assert np.array_equal(noisy.train.y[tests], plain.train.y[tests])
    both = federation(link("label_noise", rate=0.4, flip=flip, test=True), data=arrays)
    assert (both.train.y[tests] != plain.train.y[tests]).mean() > 0.3
    ranged = federation(link("label_noise", rate=0.4, least=0.1), data=arrays)
    rates = ranged.skews["skew/label_noise"]
    assert len(set(rates)) == N and rates.min() >= 0.1 and rates.max() <= 0.4


def test_groups_are_of_equal_size_and_do_not_depend_on_later_clients():
    many, few = (groups_of(3, clients, np.random.default_rng(5)) for clients in (11, 6))
    assert np.array_equal(many[:6], few)
    assert sorted(np.bincount(few)) == [2, 2, 2]
    assert np.ptp(np.bincount(many)) <= 1


def test_what_a_client_has_stands_in_partition_csv():
    f = federation(link("rotation", max=10.0), link("label_noise"), link("rotation"))
    assert list(f.skews) == ["skew/rotation", "skew/label_noise", "skew/rotation[1]"]
    record = heterogeneity(f).rows
    for name, numbers in f.skews.items():
        assert record[name] == numbers[record["client"]].tolist()
    header = "client,label,samples,skew/label_noise,skew/rotation,skew/rotation[1]\n"
    assert to_csv([record], PARTITION).startswith(header)


TEXTS = fedsim.Arrays(RNG.integers(0, 9, (60, 8)), RNG.integers(0, 9, (60, 8)))
TARGETS = fedsim.Arrays(RNG.normal(size=(60, 4)), RNG.normal(size=60))


@pytest.mark.parametrize(
    ("skew", "data", "message"),
    [
        (link("rotation"), TARGETS, "is for images [n, height, width, channels], and samples have"),
        (link("feature_noise"), TEXTS, "features that are numbers, and these samples are tokens"),
        (link("label_noise"), TEXTS, "changes the label of a sample, and here every token has one"),
        (link("label_noise"), TARGETS, "changes classes, and these targets are numbers"),
        (link("concept_shift"), TARGETS, "changes classes, and these targets are numbers"),
        (link("concept_shift", groups=6), IMAGES, "there are 5 classes; groups at most 5"),
        (link("rotation", max=3.0, degrees=[1.0]), IMAGES, "degrees and max are both given"),
        (link("feature_noise", std=1e39), IMAGES, "feature_noise: features: returned float64"),
        (link("feature_noise", std=1e308), IMAGES, "expected finite float32 features"),
        (link("label_noise", least=0.9), IMAGES, "least 0.9 is above rate 0.2"),
    ],
)
def test_refused_before_anything_is_done(skew, data, message):
    with pytest.raises(ScenarioError) as error:
        federation(link("feature_noise", std=0.0) if data is not TEXTS else skew, skew, data=data)
    assert message in str(error.value) and "data.skew[1]" in str(error.value)


def test_all_links_are_refused_at_once():
    with pytest.raises(ScenarioError) as error:
        federation(link("rotation"), link("feature_noise"), link("concept_shift"), data=TARGETS)
    assert [problem.where for problem in error.value.problems] == ["data.skew[0]", "data.skew[2]"]


def ones(clients, rng):
    return np.ones(clients)


def kept(x, a, rng):
    return x


@pytest.mark.parametrize(
    ("skew", "message"),
    [
        (Skew(lambda clients, rng: rng.random(3), kept), "draw: returned float64 (3,)"),
        (Skew(lambda clients, rng: np.full(clients, np.nan), kept), "a finite number for each"),
        (Skew(ones, lambda x, a, rng: x[1:]), "features: returned"),
        (Skew(ones, lambda x, a, rng: x / 0), "expected finite float32 features"),
        (Skew(ones, labels=lambda y, a, c, rng: y + c), "expected labels 0 to 4"),
    ],
)
def test_one_of_a_plug_in_keeps_its_contract(skew, message, own_kinds):
    @fedsim.skew
    def own():
        return skew

    with np.errstate(all="ignore"), pytest.raises(ScenarioError) as error:
        federation(link("own"))
    assert message in str(error.value)


def test_the_page_about_them(root, tmp_path):
    page = (root / "docs" / "scenarios" / "clients.md").read_text()
    text = page.partition("<!-- skewed -->\n```yaml\n")[2].partition("```")[0]
    (tmp_path / "skewed.yaml").write_text(text)
    f = federations_of(read(tmp_path / "skewed.yaml"), None, np.dtype("float32"))[0]
    assert list(f.skews) == ["skew/rotation", "skew/label_noise", "skew/concept_shift"]
    assert f.label_shift_periods == (10,)
    assert sorted(set(f.skews["skew/rotation"])) == [0, 90, 180, 270]


# ----------------------------------------------------------------- labels that move with the rounds


def plan_of(*skews, labelled=True):
    f = federation(*skews)
    everybody = Cohort(lambda population, r, rng: population.ids, nominal=lambda clients: clients)
    local = Local(batch=8, epochs=1, steps=None, shuffle=True, drop_last=False, lr=lambda r: 0.1)
    return Plan(f, everybody, local, 0, 9, Conditions(labelled=labelled))


def test_a_plan_moves_labels_as_a_pure_function_of_the_round():
    plan = plan_of(
        link("concept_shift", groups=2, every=2), link("concept_shift", groups=1, every=3)
    )
    shifts = [plan.round(r)[0].shift for r in (9, 1, 2, 3, 4, 5, 6, 7, 8, 9)]
    want = [((r - 1) // 2 + (r - 1) // 3) % CLASSES for r in (9, 1, 2, 3, 4, 5, 6, 7, 8, 9)]
    assert shifts == want
    assert np.array_equal(plan.federation.labels_in(4), (plan.federation.train.y + 2) % CLASSES)
    assert plan.federation.labels_in(0) is plan.federation.labels_in(1) is plan.federation.train.y


@pytest.mark.long
def test_concept_shift_is_its_definition():
    """Scores of FedAvg of logistic regression in NumPy, with labels (y + g + ⌊(r − 1)/2⌋) mod C."""
    rng = np.random.default_rng(3)
    arrays = fedsim.Arrays(rng.normal(size=(120, 6)), rng.integers(0, 3, 120))
    section = {"kind": "supplied", "clients": 4, "test": 0.2, "client_test": 0.25}
    scenario = {
        "name": "drift",
        "rounds": 3,
        "model": "logistic",
        "client": {"lr": 0.4, "batch": "full", "steps": 2},
        "numerics": {"dtype": "float64"},
    }
    shifted = {**section, "skew": [link("concept_shift", groups=2, every=2)]}
    result = fedsim.run({**scenario, "data": shifted}, data=arrays)
    f = federations_of(read({**scenario, "data": section}), arrays, np.dtype("float64"))[0]
    groups = result.partition.groupby("client")["skew/concept_shift"].first().to_numpy()
    assert sorted(groups) == [0, 0, 1, 1]
    W, b = np.zeros((6, 3)), np.zeros(3)
    seen = lambda client, rows, r: (f.train.y[rows] + groups[client] + (r - 1) // 2) % 3
    for r in (1, 2, 3):
        total, sums = 0, [0.0, 0.0]
        for client in range(4):
            rows = f.holders.of(client)
            x, y, w, c = f.train.x[rows], np.eye(3)[seen(client, rows, r)], W.copy(), b.copy()
            for _ in range(2):
                p = np.exp(x @ w + c)
                error = (p / p.sum(1, keepdims=True) - y) / len(rows)
                w, c = w - 0.4 * x.T @ error, c - 0.4 * error.sum(0)
            sums, total = [sums[0] + len(rows) * w, sums[1] + len(rows) * c], total + len(rows)
        W, b = sums[0] / total, sums[1] / total
    np.testing.assert_allclose(result.model()["W"], W, rtol=1e-10)
    for client, accuracy in enumerate(result.clients["global_accuracy"]):
        rows = f.test_holders.of(client)
        assert accuracy == ((f.train.x[rows] @ W + b).argmax(1) == seen(client, rows, 3)).mean()
    clean = ((f.test.x @ W + b).argmax(1) == f.test.y).mean()
    assert result.rounds["test_accuracy"].iloc[-1] == pytest.approx(clean)


ALL = {
    "kind": "digits", "clients": 12, "client_test": 0.2,
    "skew": [
        "rotation", {"kind": "feature_noise"}, {"kind": "label_noise"},
        {"kind": "concept_shift", "every": 2},
    ],
    "augment": ["flip", {"kind": "crop", "padding": 2}],
}  # fmt: skip


def everything(**sections):
    return {
        "name": "all", "rounds": 4, "data": ALL, "model": {"kind": "mlp", "hidden": [16]},
        "cohort": {"kind": "uniform", "size": 7}, "client": {"lr": 0.1, "batch": 8, "epochs": 2},
        "numerics": {"lanes": 3}, **sections,
    }  # fmt: skip


@pytest.fixture(scope="module")
def reference():
    return digest(fedsim.run(everything()))


@pytest.mark.optimised
@pytest.mark.long
@pytest.mark.parametrize(
    ("sections", "options"),
    [
        ({}, {"pack": random_packing(1), "calls": 3}),
        ({"numerics": {"lanes": 3, "block": 2}, "data": {**ALL, "resident_mb": 0}}, {}),
    ],
)
def test_no_bit_depends_on_how_it_is_computed(reference, sections, options):
    assert digest(fedsim.run(everything(**sections), **options)) == reference


@pytest.mark.long
def test_a_run_goes_on_with_the_labels_of_its_round(reference, tmp_path):
    fedsim.run(everything(rounds=3), out=tmp_path / "run")
    assert digest(fedsim.run(everything(), out=tmp_path / "run", resume=True)) == reference


@pytest.mark.long
@pytest.mark.parametrize("skew", [{"kind": "concept_shift", "groups": 3, "every": 1}, "rotation"])
def test_seeds_side_by_side_have_their_own_samples(skew):
    data = {"kind": "digits", "clients": 6, "skew": [skew]}
    scenario = {"name": "seeds", "rounds": 2, "data": data, "model": "logistic"}
    both = fedsim.run({**scenario, "seeds": [0, 1]})
    for seed in (0, 1):
        alone = fedsim.run({**scenario, "seeds": [seed]})
        jax.tree.map(np.testing.assert_array_equal, alone.model(), both.model(seed=seed))


@pytest.mark.long
def test_a_method_that_knows_label_counts_knows_those_of_the_round():
    rng = np.random.default_rng(1)
    arrays = fedsim.Arrays(
        rng.normal(size=(90, 5)), np.sort(rng.integers(0, 3, 90)), client=np.arange(90) // 30
    )
    data, client = {"kind": "supplied", "test": 0}, {"kind": "fedlc", "lr": 0.3, "batch": "full"}
    scenario = {"name": "lc", "rounds": 1, "data": data, "model": "logistic", "client": client}
    shift = {**data, "skew": [link("concept_shift", groups=1, every=1)]}
    moving = fedsim.run({**scenario, "rounds": 2, "data": shift}, data=arrays)
    first = fedsim.run(scenario, data=arrays).model()
    second = fedsim.run(scenario, data=arrays._replace(y=(arrays.y + 1) % 3), params=first)
    jax.tree.map(np.testing.assert_array_equal, moving.model(), second.model())

"""Metrics on arrays are those of scikit-learn, with ties, weights and missing classes."""

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy.special import expit, softmax

import fedsim
from fedsim import ScenarioError

metrics = pytest.importorskip("sklearn.metrics")

AVERAGES = ("macro", "weighted")


def samples(seed, n=200, classes=4, ties=False, weighted=False):
    """Targets, outputs and weights; with ties, outputs of few values, and rows that are alike."""
    rng = np.random.default_rng(seed)
    outputs = rng.normal(size=(n, classes)).astype(np.float32)
    if ties:
        outputs = np.round(outputs[rng.integers(n, size=n)] * 2) / 2
    y = rng.integers(classes, size=n)
    y[:classes] = range(classes)
    weights = rng.exponential(size=n) * (rng.random(n) > 0.1) if weighted else None
    return y, outputs, weights


def of_sklearn(kind, average, y, outputs, weights):
    """The score by scikit-learn."""
    classes = outputs.shape[1]
    outputs = outputs.astype(np.float64)
    p = softmax(outputs, axis=1)
    decided = outputs.argmax(axis=1)
    is_binary = classes == 2
    score = p[:, 1] if is_binary else p
    one_hot = y if is_binary else np.eye(classes)[y]
    given = {"sample_weight": weights}
    several = {} if is_binary else {"multi_class": "ovr", "average": average}
    ranked = {**given, "average": average or "macro"}
    share = {**given, "average": average or "binary", "zero_division": 0}
    labelled = {**given, "labels": range(classes)}
    scores = {
        "auc": lambda: metrics.roc_auc_score(y, score, **given, **several),
        "average_precision": lambda: metrics.average_precision_score(one_hot, score, **ranked),
        "f1": lambda: metrics.f1_score(y, decided, **share),
        "precision": lambda: metrics.precision_score(y, decided, **share),
        "recall": lambda: metrics.recall_score(y, decided, **share),
        "specificity": lambda: metrics.recall_score(y, decided, pos_label=0, **given),
        "balanced_accuracy": lambda: metrics.balanced_accuracy_score(y, decided, **given),
        "top_k(k=2)": lambda: metrics.top_k_accuracy_score(y, outputs, k=2, **labelled),
        "brier": lambda: metrics.brier_score_loss(y, score, **labelled),
        "log_loss": lambda: metrics.log_loss(y, p, **labelled),
        "matthews": lambda: metrics.matthews_corrcoef(y, decided, **given),
        "kappa": lambda: metrics.cohen_kappa_score(y, decided, **given),
    }
    return scores[kind]()


AVERAGED = ("auc", "average_precision", "f1", "precision", "recall")
PLAIN = ("balanced_accuracy", "top_k(k=2)", "brier", "log_loss", "matthews", "kappa")


SEVERAL = [(kind, average, 4) for kind in AVERAGED for average in AVERAGES]
SEVERAL += [(kind, "micro", 4) for kind in AVERAGED[2:]] + [(kind, None, 4) for kind in PLAIN]
TWO = [(kind, None, 2) for kind in (*AVERAGED, *PLAIN, "specificity") if kind != "top_k(k=2)"]


@pytest.mark.parametrize(("kind", "average", "classes"), SEVERAL + TWO)
def test_scores_of_classes_are_those_of_scikit_learn(kind, average, classes):
    metric = {"kind": kind, "average": average} if average else kind
    for seed, ties, weighted in itertools.product((0, 1), (False, True), (False, True)):
        given = samples(seed, classes=classes, ties=ties, weighted=weighted)
        expected = of_sklearn(kind, average, *given)
        assert fedsim.measure(metric, *given) == pytest.approx(expected, abs=1e-12), (seed, ties)


@pytest.mark.parametrize(
    ("scale", "why"), [(60, "many probabilities are rounded to 1"), (0, "all scores are equal")]
)
def test_ranks_of_equal_scores_are_those_of_scikit_learn(scale, why):
    y, outputs, _ = samples(7, n=400, classes=2)
    for kind in ("auc", "average_precision"):
        expected = of_sklearn(kind, None, y, scale * outputs, None)
        assert fedsim.measure(kind, y, scale * outputs) == pytest.approx(expected, abs=1e-12), why


@pytest.mark.parametrize("kind", ("auc", "average_precision", "f1", "brier", "log_loss", "recall"))
def test_one_output_is_the_logit_of_the_second_of_two_classes(kind):
    y, outputs, _ = samples(3, classes=2)
    logit = outputs[:, 1]
    of_two = fedsim.measure(kind, y, np.stack([np.zeros_like(logit), logit], axis=1))
    assert fedsim.measure(kind, y, logit) == fedsim.measure(kind, y, logit[:, None]) == of_two
    if kind == "auc":
        assert of_two == pytest.approx(metrics.roc_auc_score(y, logit), abs=1e-12)
    if kind == "brier":
        assert of_two == pytest.approx(metrics.brier_score_loss(y, expit(logit)), abs=1e-6)


@pytest.mark.parametrize("kind", ("auc", "average_precision", "f1", "precision", "recall"))
def test_a_class_of_several_may_be_the_positive_one(kind):
    y, outputs, weights = samples(4, weighted=True)
    p = softmax(outputs.astype(np.float64), axis=1)[:, 3]
    by_rank = {"auc": metrics.roc_auc_score, "average_precision": metrics.average_precision_score}
    score = by_rank[kind] if kind in by_rank else getattr(metrics, f"{kind}_score")
    told = p if kind in by_rank else outputs.argmax(axis=1) == 3
    expected = score(y == 3, told, sample_weight=weights)
    metric = {"kind": kind, "positive": 3}
    assert fedsim.measure(metric, y, outputs, weights) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("targets", (1, 3))
@pytest.mark.parametrize("weighted", (False, True))
def test_scores_of_numbers_are_those_of_scikit_learn(targets, weighted):
    rng = np.random.default_rng(targets)
    y = rng.normal(size=(50, targets))
    outputs = y + rng.normal(size=y.shape)
    weights = rng.exponential(size=50) if weighted else None
    expected = {
        "r2": metrics.r2_score(y, outputs, sample_weight=weights, multioutput="variance_weighted"),
        "mae": metrics.mean_absolute_error(y, outputs, sample_weight=weights),
        "rmse": metrics.root_mean_squared_error(y, outputs, sample_weight=weights),
        "pinball(q=0.9)": metrics.mean_pinball_loss(y, outputs, sample_weight=weights, alpha=0.9),
    }
    for metric, value in expected.items():
        assert fedsim.measure(metric, y, outputs, weights) == pytest.approx(value, abs=1e-12)


def test_the_calibration_error_is_the_mean_gap_of_the_bins():
    y, outputs, weights = samples(5, n=500, weighted=True)
    p = softmax(outputs.astype(np.float64), axis=1)
    confidence = p.max(axis=1)
    right = p.argmax(axis=1) == y
    total = 0.0
    for low in np.arange(10) / 10:
        of_bin = (confidence > low) & (confidence <= low + 0.1)
        if of_bin.any():
            w = weights[of_bin]
            gap = np.average(confidence[of_bin] - right[of_bin], weights=w)
            total += w.sum() * abs(gap)
    expected = total / weights.sum()
    assert fedsim.measure("ece(bins=10)", y, outputs, weights) == pytest.approx(expected, abs=1e-12)


ONE = np.array([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
UNDEFINED = {
    "one class has no AUC": ("auc", [1, 1, 1], ONE),
    "one class of several has no AUC": ("auc", [1, 1, 1], np.eye(3)),
    "no positive has no average precision": ("average_precision", [0, 0, 0], ONE),
    "no positive has no recall": ("recall", [0, 0, 0], ONE),
    "neither a positive nor a decision for it": ("f1", [0, 0, 0], -ONE * [0, 1]),
    "no negative has no specificity": ("specificity", [1, 1, 1], ONE),
    "one class has no correlation": ("matthews", [1, 1, 1], ONE),
    "one class, decided for": ("kappa", [0, 0, 0], -ONE * [0, 1]),
    "numbers that are all alike": ("r2", [2.0, 2.0], [1.0, 3.0]),
    "no samples": ("auc", [], np.zeros((0, 2))),
    "no numbers": ("mae", [], []),
    "no weight": ("brier", [0, 1], [[1, 0], [0, 1]], [0, 0]),
    "an output that is not a number": ("auc", [0, 1], [[1, 0], [np.nan, 1]]),
    "an infinite output": ("log_loss", [0, 1], [[1, 0], [np.inf, 1]]),
}


@pytest.mark.parametrize("case", UNDEFINED)
def test_what_is_undefined_is_not_a_number(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(fedsim.measure(*UNDEFINED[case]))


def test_a_model_that_takes_nothing_for_a_class_has_no_precision_left():
    constant = np.tile([1.0, 0.0], (4, 1))
    for kind in ("precision", "recall", "f1", "matthews"):
        assert fedsim.measure(kind, [0, 1, 0, 1], constant) == 0


def test_classes_that_samples_are_not_of_have_no_auc():
    y, outputs, _ = samples(6, classes=4)
    few = y < 3
    of_class = [fedsim.measure(f"auc(positive={c})", y[few], outputs[few]) for c in range(3)]
    assert fedsim.measure("auc", y[few], outputs[few]) == pytest.approx(np.mean(of_class))


WRONG = {
    "no metric": (("aucc", [0, 1], [0, 1]), "auc"),
    "other lengths": (("auc", [0, 1, 1], [[0, 1], [1, 0]]), "different numbers of samples"),
    "other targets": (("mae", [0.0, 1.0], np.zeros((2, 3))), "different numbers of targets"),
    "numbers as classes": (("auc", [0.5, 1], [0, 1]), "integers from 0 on"),
    "a class without logit": (("auc", [0, 2], [[0, 1], [1, 0]]), "from 0 to 1"),
    "names as classes": (("auc", ["a", "b"], [0, 1]), "array of numbers"),
    "other weights": (("auc", [0, 1], [0, 1], [1, 1, 1]), "2 samples need 2 weights"),
    "negative weights": (("auc", [0, 1], [0, 1], [1, -1]), "not negative"),
    "binary of several": (("auc(average=binary)", [0, 1, 2], np.eye(3)), "positive: CLASS"),
    "an unknown positive": (("f1(positive=7)", [0, 1, 2], np.eye(3)), "write 0, 1 or 2"),
    "k of all": (("top_k(k=3)", [0, 1, 2], np.eye(3)), "write 2 or less"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused_in_one_line(case):
    arguments, told = WRONG[case]
    with pytest.raises(ScenarioError) as refused:
        fedsim.measure(*arguments)
    assert told in str(refused.value) and "\n" not in str(refused.value).strip()

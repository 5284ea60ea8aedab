"""Cases of rules: what the server adds to the model, round after round.

Numbers are worked out by hand, unless a comment names NumPy or the authors' code.
"""

from definitions.cohort import NONE, Cohort, case
from definitions.rounds import (
    ACROSS,
    ALIKE,
    CLUSTERED,
    CONVINCED,
    CURVED,
    FIRST,
    LATER,
    ONE_SIDED,
    OPPOSED,
    SECOND,
    SEVEN,
    STILL,
    SYBILS,
    TWICE,
    WITHOUT_LAST,
    WITHOUT_PIVOT,
)

CASES = {
    # Σ w x / Σ w with w = 1, 2, 2, 3, 2: samples times how often a client was drawn
    "mean": case({"kind": "mean"}, (TWICE, [3.1, -0.3])),
    # w = 1, 1, 2, 1, 1
    # rows that are no pairs; of pairs: test_lora_mean.py
    "lora_mean": case({"kind": "lora_mean"}, (TWICE, [3.1, -0.3])),
    "mean, uniform": case({"kind": "mean", "weights": "uniform"}, (TWICE, [3, 1 / 6])),
    # w = 2, 1, 6, 1, 2
    "mean, steps": case({"kind": "mean", "weights": "steps"}, (TWICE, [37 / 12, 0.25])),
    # w = 1, 2, 8, 1, 2
    "mean, effort": case({"kind": "mean", "weights": "effort"}, (TWICE, [43 / 14, 11 / 14])),
    # the sums (31, -3) and (18, 1) over what is expected: 16 samples, 4 clients
    "mean, expected samples": case(
        {"kind": "mean", "denominator": "expected"}, (TWICE, [31 / 16, -3 / 16])
    ),
    "mean, expected clients": case(
        {"kind": "mean", "weights": "uniform", "denominator": "expected"}, (TWICE, [4.5, 0.25])
    ),
    # (1 (1, 0) + 2 (3, 4)) / 3 and ((2, 2) + 3 (0, -1) + 2 (10, -6)) / 6, of 3 and 6 samples
    "hierarchical": case(
        {"kind": "hierarchical", "groups": [[0, 1, 2], [3, 4, 5]]}, (FIRST, [29 / 9, -5 / 9])
    ),
    # efforts 1, 2, 4, 1, 2: Σ w e / Σ w = 2, and Σ w x/e / Σ w = (15, -4)/10
    "nova": case({"kind": "nova"}, (TWICE, [3, -0.8])),
    # mean (3, 1/6), Σ‖x‖² = 179 with the fourth twice: 179 / (2 · 6 · (9.02778 + 1)) = 1.48753
    # times the mean; no less than once
    "fedexp": case(
        {"kind": "fedexp", "eps": 1.0}, (TWICE, [4.4626039, 0.2479224]), (ALIKE, [1, 0])
    ),
    # (18, 1) over all 8 clients
    "mean_over_all": case({"kind": "mean_over_all"}, (TWICE, [2.25, 0.125])),
    # 8/6 · (31, -3)/40
    "horvitz_thompson": case({"kind": "horvitz_thompson"}, (TWICE, [31 / 30, -0.1])),
    # (2 (1, 0) + 8 (3, 4) + 4 (2, 2) + 6 (0, -1) + 8 (10, -6)) / 40: weights w / share
    "horvitz_thompson, known": case(
        {"kind": "horvitz_thompson", "shares": "known"}, (TWICE, [2.85, -0.35])
    ),
    # (16, -1)/8; then the last updates of all sum to (21, 5)
    "mifa": case({"kind": "mifa"}, (FIRST, [2, -0.125]), (SECOND, [2.625, 0.625])),
    # (16, -1)/5; then changes (5, 6)/4 and the last ones before, (16, -1)/8
    "fedvarp": case({"kind": "fedvarp"}, (FIRST, [3.2, -0.2]), (SECOND, [3.25, 1.375])),
    "ca2fl": case({"kind": "ca2fl"}, (FIRST, [3.2, -0.2]), (SECOND, [3.25, 1.375])),
    # round 4: those of round 1 had intervals of 1 and 2 (ω = 1.5), the third one of 2: (1.5 (4, 3)
    # + 2 (4, 4))/8
    "fedau": case({"kind": "fedau", "cutoff": 2}, (FIRST, [2, -0.125]), (LATER, [1.75, 1.5625])),
    # h = -(18, 1)/16 more each round; the mean (3, 1/6) less h/α
    "dyn": case({"kind": "dyn", "alpha": 0.5}, (TWICE, [5.25, 7 / 24]), (TWICE, [7.5, 5 / 12])),
    # Σ F² 2x / Σ (2 F ‖2x‖² + 2 F²), the fourth twice
    "q_fair": case({"kind": "q_fair", "q": 2.0, "L": 2.0}, (TWICE, [0.037246319, 0.017747712])),
    # λ = 1/8 of all; then F less their mean 0.95 moves them to 0.08, 0.13, 0.23, 0.055, 0.13
    "agnostic": case(
        {"kind": "agnostic", "lr": 0.1}, (FIRST, [3.2, -0.2]), (FIRST, [3.568, 0.232])
    ),
    # λ + F - 0.95 = 1.175 of the fourth, at most 0.175 of the others: the nearest point of the
    # simplex is the fourth alone
    "agnostic, far": case({"kind": "agnostic", "lr": 1.0}, (FIRST, [3.2, -0.2]), (FIRST, [2, 2])),
    # n 2^F = √2, 4, 4, 3 · 2^¼, 4
    "term": case({"kind": "term", "t": 0.6931471806}, (FIRST, [3.6164639, -0.2100845])),
    # the fourth and, of the two whose loss is 1, the first
    "delta_fl": case({"kind": "delta_fl", "theta": 0.4}, (FIRST, [2.5, 3])),
    # and half of the other
    "delta_fl, in part": case({"kind": "delta_fl", "theta": 0.5}, (FIRST, [4, 1.2])),
    # n + r/8 with r = -2, 1, 4, -4, 1 by the losses 0.5, 1, 2, 0.25, 1: of 9 together
    "gifair": case({"kind": "gifair", "strength": 0.5}, (FIRST, [251 / 72, -5 / 12])),
    # halfway between (3, 4)/5 and (0, -1)
    "fedmgda": case({"kind": "fedmgda"}, (FIRST, [0.3, -0.1])),
    # the mean of (1, 0), (3, 4)/5, (1, 1)/√2, (0, -1), (5, -3)/√34
    "fedmgda, near the mean": case(
        {"kind": "fedmgda", "epsilon": 0.0}, (FIRST, [0.6329200, -0.0014777])
    ),
    # of the corners of a quadrilateral the point where its diagonals cross
    "geometric_median": case({"kind": "geometric_median"}, (ACROSS, [1, 1])),
    # three steps of Weiszfeld's from the mean (29/9, 0), by NumPy
    "rfa": case({"kind": "rfa"}, (FIRST, [1.3698445, 0.0623914])),
    # from 0: the last row, of length √136, at length 5; then from there, by NumPy
    "centered_clipping": case(
        {"kind": "centered_clipping", "radius": 5.0},
        (FIRST, [2.0574929, 0.4855042]),
        (FIRST, [2.3860726, 0.4646176]),
    ),
    # columns 0 1 2 3 10 and -6 -1 0 2 4; without the last client two values are in the middle
    "median": case({"kind": "median"}, (FIRST, [2, 0]), (WITHOUT_LAST, [1.5, 1])),
    "trimmed_mean": case(
        {"kind": "trimmed_mean", "trim": 1}, (FIRST, [2, 1 / 3]), (WITHOUT_LAST, [1.5, 1])
    ),
    # scores of two neighbours: 2+5, 5+20, 5+5, 2+13, 117+125
    "krum": case({"kind": "krum", "f": 1}, (FIRST, [1, 0])),
    "multi_krum": case({"kind": "multi_krum", "f": 1}, (FIRST, [1.5, 1.25])),
    "multi_krum, select": case({"kind": "multi_krum", "f": 1, "select": 2}, (FIRST, [1.5, 1])),
    # columns -4 0 0 5 5.5 and 0 1 2 6 7: around the median without 5.5 and 7, around the trimmed
    # mean 5/3 without -4
    "mean_around_median": case({"kind": "mean_around_median", "f": 1}, (ONE_SIDED, [0.25, 2.25])),
    "phocas": case({"kind": "phocas", "f": 1}, (ONE_SIDED, [2.625, 2.25])),
    # Krum's five of seven, then the three values nearest to their median, by NumPy
    "bulyan": case({"kind": "bulyan", "f": 1}, (SEVEN, [7 / 3, 2])),
    # + + + 0 + and 0 + + - -, in which the fourth client's vote counts twice in the second round
    "sign_majority": case({"kind": "sign_majority"}, (FIRST, [1, 0]), (TWICE, [1, 1])),
    # votes 5 and 1: the mean (3.1, -0.3), turned round in the second coordinate
    "robust_learning_rate": case(
        {"kind": "robust_learning_rate", "threshold": 2}, (TWICE, [3.1, 0.3])
    ),
    # all but the last, which is far away
    "minimum_diameter": case({"kind": "minimum_diameter", "f": 1}, (FIRST, [1.5, 1.25])),
    "smallest_eigenvalue": case({"kind": "smallest_eigenvalue", "f": 1}, (FIRST, [1.5, 1.25])),
    "divide_and_conquer": case({"kind": "divide_and_conquer", "f": 1}, (FIRST, [1.5, 1.25])),
    # weights 1 - τ/max τ after one step, by NumPy's eigenvectors
    "covariance_filter": case(
        {"kind": "covariance_filter", "f": 1}, (FIRST, [1.466483, 1.1896939])
    ),
    # the third row is opposed to the others, whose cosine is 0.994: weights 0, 0, 1
    "foolsgold": case({"kind": "foolsgold"}, (SYBILS, [-1, 0])),
    # weights 1, 0.18071, 0.18071, 1; then, of the sums of both rounds, 0, 0, 0, 1; by the authors'
    # code
    "foolsgold, in part": case(
        {"kind": "foolsgold"}, (OPPOSED, [0.2168466, 2.361411]), (CONVINCED, [0, 2])
    ),
    # nobody differs, nobody is trusted
    "foolsgold, all alike": case({"kind": "foolsgold"}, (Cohort(rows=[[1, 2]] * 6), [0, 0])),
    # three of four point the same way; the median of the lengths 1, 2, 3, 9 is 2.5
    "flame": case({"kind": "flame", "noise": 0.0}, (CLUSTERED, [5.5 / 3, 0])),
    "largest_cluster": case({"kind": "largest_cluster"}, (CLUSTERED, [2, 0])),
    # the three nearest to (2, 2); where that client is away, two nearest to (1, 0)
    "monna": case(
        {"kind": "monna", "f": 2, "pivot": 3}, (FIRST, [2, 2]), (WITHOUT_PIVOT, [0.5, -0.5])
    ),
    # lengths √2, √5, √5, √5, √162: the last is too long, the fourth has other signs
    "sign_guard": case(
        {"kind": "sign_guard"},
        (Cohort(rows=([1, 1], [1, 2], NONE, [2, 1], [-1, -2], [9, 9])), [4 / 3, 4 / 3]),
    ),
    # without the last, by NumPy
    "three_sigma": case({"kind": "three_sigma", "factor": 1.0}, (FIRST, [1.5, 1.25])),
    # by bisection in NumPy
    "auto_gm": case({"kind": "auto_gm", "lam": 40.0}, (ACROSS, [0.7121644, 0.8826115])),
    # cosines to (3, 4): 0.6, 1, 0.98995, below 0, 0.1029; rows at length 5
    "trust": case({"kind": "trust"}, (FIRST, [3.6916952, 2.6868551])),
    # ½‖x‖² from 9 to 6.5, 0.5, 1, 12.5, 65, less ρ‖u‖² = 0.1, 2.5, 0.8, ...: the fourth is best,
    # the second but for ρ
    "zeno": case({"kind": "zeno", "f": 4, "rho": 0.1}, (Cohort(params=(-3, -3)), [2, 2])),
    # the authors' steps in NumPy
    "residual_reweighting": case({"kind": "residual_reweighting"}, (FIRST, [1.5172284, 1.2000376])),
    # each row's largest coordinate, at most as long as the middle one, by NumPy
    "lasa": case({"kind": "lasa"}, (FIRST, [1.4751188, 1.4209139])),
    # distances to the last update are 90 to 110 of all, then about 1 and 10 of the last client:
    # over their medians it stands out
    "fldetector": case(
        {"kind": "fldetector", "window": 2},
        (STILL[0], [10 / 3, 0.5]),
        (STILL[1], [620 / 6, 0.5]),
        (STILL[2], [102, 2.79]),
    ),
    # gradients 2 w - b: the third updates are foreseen by those before, within 0.11 but for the
    # last, which is 8.05 away
    "fldetector, foreseen": case(
        {"kind": "fldetector", "window": 2},
        (CURVED[0], [10 / 3, 0.5]),
        (CURVED[1], [4 / 3, 0.5]),
        (CURVED[2], [-3.985, 1.8]),
    ),
}
"""By the rule's name, and what is special behind a comma."""

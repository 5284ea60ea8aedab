"""Methods under the worst of several attacks: as good as the attack that hurts them most."""

import itertools
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from fedsim.scenario.shorthand import split_at_commas
from fedsim.study.exchange import worst_apart
from fedsim.study.pairing import mean_score, same_runs, score_array, seed_scores, shared_seeds
from fedsim.study.statistics import holm, interval, sample_sd
from fedsim.study.summary import Record, as_loss, larger_is_better, metric_of, variation_of
from fedsim.study.words import chooses_attack, path_and_value

ByAttack = dict[str, list[Record]]
"""runs of a method under one variation, by attack"""
Settings = dict[str, dict[str, ByAttack]]
"""runs by what varies apart from the attack, by method and by attack"""


def split_attack(variation: str) -> tuple[str, str]:
    """Split a variation into what varies apart from the attack, and the attack."""
    attack = []
    rest = []
    for setting in split_at_commas(variation):
        (attack if chooses_attack(setting) else rest).append(setting)
    return ", ".join(rest), ", ".join(attack)


def by_attack(summary: Sequence[Record]) -> Settings:
    """Return the runs under two or more attacks; empty if attacks do not vary.

    Runs that nobody attacks are left out.
    """
    settings: Settings = {}
    attacks = set()
    for run in summary:
        rest, attack = split_attack(variation_of(run))
        if _is_nothing(attack) or _is_without_attackers(rest):
            continue
        attacks.add(attack)
        of_method = settings.setdefault(rest, {}).setdefault(run["method"], {})
        of_method.setdefault(attack, []).append(run)
    if len(attacks) < 2:
        return {}
    return settings


def _is_nothing(attack: str) -> bool:
    """Whether an attack has no links: `wire=[]`, or the empty text."""
    return all(setting.endswith("=[]") for setting in split_at_commas(attack))


def _is_without_attackers(rest: str) -> bool:
    """Whether a variation sets the share of malicious clients to 0."""
    settings = map(path_and_value, split_at_commas(rest))
    return any(path == "fleet.malicious" and value in ("0", "0.0") for path, value in settings)


def worst_cases(summary: Sequence[Record], score: str) -> list[Record]:
    """Return the rows of `worst.csv`: every method under its worst attack, the best method first.

    The attack is chosen on the seeds on which it is reported, so the mean is a little low if
    several attacks are about equally bad. Methods are compared with the best one by a test that
    chooses the attacks again (`worst_apart`). Since the best one is chosen on the same seeds too,
    Holm's adjustment runs over all pairs of methods of all variations.
    """
    settings = by_attack(summary)
    p_values = _p_of_pairs(settings, score)
    rising = larger_is_better(metric_of(summary))
    table = []
    for rest, methods in settings.items():
        rows = [_row(method, rest, attacks, score) for method, attacks in methods.items()]
        rows = sorted(filter(None, rows), key=lambda row: as_loss(row["mean"], rising))
        for row in rows:
            best = rows[0]["method"]
            p = p_values.get((rest, frozenset((row["method"], best))))
            table.append({**row, "best": best, "p_adjusted": p})
    return table


def _p_of_pairs(settings: Settings, score: str) -> dict[tuple[str, frozenset[str]], float | None]:
    """The p-values of all pairs of methods by variation, after Holm over all of them."""
    keys = []
    p_values = []
    tests: list[Hashable] = []
    for rest, methods in settings.items():
        for one, other in itertools.combinations(methods, 2):
            keys.append((rest, frozenset((one, other))))
            p_values.append(_p_of_pair(methods[one], methods[other], score))
            scores = (_same_scores(methods[one], score), _same_scores(methods[other], score))
            tests.append(frozenset(scores))
    return dict(zip(keys, holm(p_values, tests), strict=True))


def _same_scores(attacks: ByAttack, score: str) -> Hashable:
    """Equal for two methods with the same scores under the same attacks."""
    scores = [(attack, same_runs(runs, score)) for attack, runs in attacks.items()]
    return frozenset(scores)


def _p_of_pair(one: ByAttack, other: ByAttack, score: str) -> float | None:
    """The p-value of two methods over the attacks and seeds that both have; None without any."""
    attacks = [attack for attack in one if attack in other]
    scores = [seed_scores(one[attack], score) for attack in attacks]
    other_scores = [seed_scores(other[attack], score) for attack in attacks]
    seeds = shared_seeds(*scores, *other_scores) if attacks else []
    if not seeds:
        return None
    sign = 1.0 if larger_is_better(_metric(one)) else -1.0
    return worst_apart(sign * _table(scores, seeds), sign * _table(other_scores, seeds))


def _table(scores: Sequence[Mapping[int, float]], seeds: Sequence[int]) -> np.ndarray:
    """Scores by attack and seed as one array `[seeds, attacks]`."""
    return np.array([[by_seed[seed] for by_seed in scores] for seed in seeds])


def _metric(attacks: ByAttack) -> str:
    """The metric of a method's runs; empty if none of them has one."""
    return metric_of(itertools.chain.from_iterable(attacks.values()))


def _row(method: str, rest: str, attacks: ByAttack, score: str) -> Record | None:
    """A row of `worst.csv`: a method under the attack whose mean score is worst.

    None if no run has a score.
    """
    means = {attack: mean_score(runs, score) for attack, runs in attacks.items()}
    means = {attack: mean for attack, mean in means.items() if mean is not None}
    if not means:
        return None
    rising = larger_is_better(_metric(attacks))
    attack = max(means, key=lambda attack: as_loss(means[attack], rising))
    values = score_array(attacks[attack], score)
    low, high = interval(values) or (None, None)
    return {
        "method": method,
        **({"variant": rest} if rest else {}),
        "metric": metric_of(attacks[attack]),
        "score": score,
        "attacks": len(attacks),
        "attack": attack,
        "seeds": len(values),
        "mean": means[attack],
        "sd": sample_sd(values),
        "ci_low": low,
        "ci_high": high,
    }

"""Methods under the worst of several attacks: a rule is as good as the attack that hurts it
most.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from fedsim.scenario.shorthand import top_level
from fedsim.study.exchange import worst_apart
from fedsim.study.pairing import same_runs
from fedsim.study.standings import mean_score, seed_scores
from fedsim.study.statistics import holm, interval
from fedsim.study.summary import Record, larger_is_better
from fedsim.study.words import of_attack

Settings = dict[str, dict[str, dict[str, list[Record]]]]
"""runs by variation of everything else, method and attack"""


def parted(variant: str) -> tuple[str, str]:
    """A variation -> (what varies beside the attack, the attack), both as labels.

    >>> parted("wire=[sign_flip], data.partition.alpha=0.1")
    ('data.partition.alpha=0.1', 'wire=[sign_flip]')
    """
    parts = top_level(variant) if variant else []
    rest, attack = (
        [part.strip() for part in parts if of_attack(part) == which] for which in (False, True)
    )
    return ", ".join(rest), ", ".join(attack)


def by_attack(summary: Sequence[Record]) -> Settings:
    """Runs under two or more attacks; none where attacks do not vary.

    Args:
      summary: rows of `summary.csv`.
    """
    settings: Settings = {}
    for run in summary:
        rest, attack = parted(str(run.get("variant") or ""))
        if (
            not attack
            or all(part.strip().endswith("=[]") for part in top_level(attack))
            or _alone(rest)
        ):
            continue  # nobody attacks
        settings.setdefault(rest, {}).setdefault(run["method"], {}).setdefault(attack, []).append(
            run
        )
    several = {
        attack
        for methods in settings.values()
        for attacks in methods.values()
        for attack in attacks
    }
    return settings if len(several) > 1 else {}


def worst_cases(summary: Sequence[Record], score: str) -> list[Record]:
    """Every method under the attack that leaves it the worst mean score: the rows of `worst.csv`,
    the best first.

    The attack is chosen on the seeds on which it is reported, so the mean is a little low where
    several attacks are about as bad. Methods are told apart from the best one by a test that
    chooses attacks anew (`worst_apart`), after Holm over all pairs of methods of all variations,
    since the best is chosen on the same seeds too.

    Args:
      summary: rows of `summary.csv`.
      score: `final`, `best` or `mean_last_k`.
    """
    settings = by_attack(summary)
    apart = _apart(settings, score)
    rows = []
    for rest, methods in settings.items():
        worst = {method: _worst(attacks, score) for method, attacks in methods.items()}
        known = {method: attack for method, attack in worst.items() if attack is not None}
        if not known:
            continue
        group = [_row(method, rest, known[method], methods[method], score) for method in known]
        group.sort(key=lambda row: -row["mean"] if larger_is_better(row["metric"]) else row["mean"])
        best = group[0]["method"]
        for row in group:
            pair = frozenset((row["method"], best))
            rows.append({**row, "best": best, "p_adjusted": apart.get((rest, pair))})
    return rows


def _apart(settings: Settings, score: str) -> dict[tuple[str, frozenset[str]], float | None]:
    """The p of every two methods under every other variation, after Holm over all of them."""
    pairs = [
        (rest, *pair) for rest, methods in settings.items() for pair in combinations(methods, 2)
    ]
    p_values = []
    tests = []
    for rest, one, other in pairs:
        both = settings[rest][one], settings[rest][other]
        p_values.append(_exchanged(*both, score))
        tests.append(
            frozenset(
                frozenset((attack, same_runs(runs, score)) for attack, runs in part.items())
                for part in both
            )
        )
    adjusted = holm(p_values, tests)
    return {(rest, frozenset(pair)): p for (rest, *pair), p in zip(pairs, adjusted, strict=True)}


def _exchanged(
    one: Mapping[str, list[Record]], other: Mapping[str, list[Record]], score: str
) -> float | None:
    """The p of two methods over the attacks and seeds that both have scores for; None where there
    are none.
    """
    attacks = [attack for attack in one if attack in other]
    scores = [[seed_scores(part[attack], score) for attack in attacks] for part in (one, other)]
    seeds = (
        sorted(set.intersection(*(set(part) for of_method in scores for part in of_method)))
        if attacks
        else []
    )
    if not seeds:
        return None
    metric = next(
        (str(run["metric"]) for runs in one.values() for run in runs if run.get("metric")), ""
    )
    sign = 1.0 if larger_is_better(metric) else -1.0
    first, second = (
        np.array([[sign * part[seed] for part in of_method] for seed in seeds])
        for of_method in scores
    )
    return worst_apart(first, second)


def _alone(rest: str) -> bool:
    """Whether a variation has no malicious clients."""
    return any(
        part.replace(" ", "") in ("fleet.malicious=0", "fleet.malicious=0.0")
        for part in top_level(rest)
    )


def _worst(attacks: Mapping[str, list[Record]], score: str) -> str | None:
    """The attack under which the mean is worst; None where no run has a score."""
    means = {attack: mean_score(runs, score) for attack, runs in attacks.items()}
    known = {attack: mean for attack, mean in means.items() if mean is not None}
    metric = next(
        (str(run["metric"]) for runs in attacks.values() for run in runs if run.get("metric")), ""
    )
    sign = 1 if larger_is_better(metric) else -1
    return min(known, key=lambda attack: sign * known[attack], default=None)


def _row(
    method: str, rest: str, attack: str, attacks: Mapping[str, list[Record]], score: str
) -> Record:
    runs = attacks[attack]
    values = np.array(list(seed_scores(runs, score).values()))
    finite = len(values) > 1 and bool(np.isfinite(values).all())
    low, high = (interval(values) if finite else None) or (None, None)
    metric = next(str(run["metric"]) for run in runs if run.get("metric"))
    numbers = {"mean": float(values.mean()), "sd": float(values.std(ddof=1)) if finite else None}
    heads = {
        "method": method,
        **({"variant": rest} if rest else {}),
        "metric": metric,
        "score": score,
    }
    return {
        **heads,
        "attacks": len(attacks),
        "attack": attack,
        "seeds": len(values),
        **numbers,
        "ci_low": low,
        "ci_high": high,
    }

"""The rows of `worst.csv` and `breakdown.csv` in sentences: what attacks leave, and where methods
fall apart.
"""

from collections.abc import Mapping, Sequence

from fedsim.study.breakdown import AXIS
from fedsim.study.claims import FALLS, WORST_CASE, Claim, Sentence, Weight
from fedsim.study.findings import Findings
from fedsim.study.pairing import SURE
from fedsim.study.summary import Record, in_words
from fedsim.study.words import axis
from fedsim.study.worst_case import parted

KEEPS = "Under the worst of {attacks} attacks{where}: {method} keeps {metric} {mean:.3g} ({attack})"
MORE_THAN = ", surely more than {sure} of {others}; {method} keeps {mean:.3g} ({attack})"
FALL = "By the means, half of what training gains is lost along the {axis}{where}: {text}."


def worst_case_lines(found: Findings) -> list[Sentence]:
    """A sentence for every variation beside the attack: what the best keeps, more than how many
    others for sure.
    """
    groups: dict[str, list[Record]] = {}
    for row in found.rows("worst"):
        groups.setdefault(row.get("variant") or "", []).append(row)
    return [_worst_case(rest, group, found) for rest, group in groups.items()]


def _worst_case(rest: str, group: Sequence[Record], found: Findings) -> Sentence:
    """What the best keeps, and what the last one keeps."""
    best, *others = group
    where = f", with {found.words(rest)}" if rest else ""
    text = KEEPS.format(
        attacks=best["attacks"],
        where=where,
        method=best["method"],
        metric=in_words(best["metric"]),
        mean=best["mean"],
        attack=found.words(best["attack"]),
    )
    if not others:
        return Sentence(f"{text}.", Weight.WORST_CASE)
    sure = [row for row in others if row["p_adjusted"] is not None and row["p_adjusted"] < SURE]
    last = others[-1]
    text += MORE_THAN.format(
        sure=len(sure),
        others=len(others),
        method=last["method"],
        mean=last["mean"],
        attack=found.words(last["attack"]),
    )
    claims = [
        Claim(WORST_CASE, best["method"], row["method"], rest, row["p_adjusted"]) for row in sure
    ]
    return Sentence(f"{text}.", Weight.WORST_CASE, claims)


def breakdown_lines(found: Findings) -> list[Sentence]:
    """A sentence for every variation beside the share of malicious clients; of several attacks the
    worst counts.
    """
    groups: dict[str, dict[str, list[Record]]] = {}
    for row in found.rows("breakdown"):
        rest, _ = parted(row.get("variant") or "")
        groups.setdefault(rest, {}).setdefault(row["method"], []).append(row)
    return [_falls(rest, methods, found) for rest, methods in groups.items()]


def _falls(rest: str, methods: Mapping[str, Sequence[Record]], found: Findings) -> Sentence:
    """Where each method has lost half of its gain, by its means; of which it is not sure that there
    is any, by name.
    """
    falls = {
        method: [row["falls"] for row in tried if row["falls"] is not None]
        for method, tried in methods.items()
    }
    points = sorted((min(values), method) for method, values in falls.items() if values)
    others = [method for method, values in falls.items() if not values]
    kept = [method for method in others if all(row["holds"] is not None for row in methods[method])]
    unsure = [method for method in others if method not in kept]

    attacks = max(map(len, methods.values()))
    where = f" under the worst of {attacks} attacks" if attacks > 1 else ""
    where += f" with {found.words(rest)}" if rest else ""
    text = ", ".join(f"{method} from {value:g}" for value, method in points) or "no method"
    text += f"; not {', '.join(kept)}" if points and kept else ""
    text += f"; training gains nothing for sure: {', '.join(unsure)}" if unsure else ""

    claimed = [*(method for _, method in points), *kept]
    claims = [Claim(FALLS, method, "", rest, None) for method in claimed]
    return Sentence(FALL.format(axis=axis(AXIS), where=where, text=text), Weight.BREAKDOWN, claims)

"""Sentences from `worst.csv` and `breakdown.csv`: what attacks leave, where methods break down."""

from collections.abc import Sequence

from fedsim.study.breakdown import MALICIOUS_AXIS
from fedsim.study.claims import FALLS, WORST_CASE, Claim, Priority, Sentence
from fedsim.study.findings import Findings
from fedsim.study.pairing import SIGNIFICANCE_LEVEL
from fedsim.study.summary import Record, grouped, in_words, values_of, variation_of
from fedsim.study.words import axis_name, others_of
from fedsim.study.worst_case import split_attack

KEEPS = "Under the worst of {attacks} attacks{where}: {method} keeps {metric} {mean:.3g} ({attack})"
BETTER_THAN = ", significantly better than {others}"
BETTER_THAN_NONE = ", not significantly better than any other"
LAST_KEEPS = "; {method} keeps {mean:.3g} ({attack})"

HALF_LOST = (
    "Half of the gain from training is lost along the {axis}{where}, judged by the means: {items}."
)
NO_METHOD_LOSES = "no method"
METHOD_LOSES = "{method} from {value:g}"
NOT_LOST = "not {methods}"
NO_GAIN = "no significant gain from training: {methods}"


def worst_case_lines(findings: Findings) -> list[Sentence]:
    """Return a sentence per variation apart from attacks: what the best method keeps.

    It also says how many others keep significantly less, and what the last one keeps.
    """
    groups = grouped(findings.rows("worst"), key=variation_of)
    return [_worst_case(variation, group, findings) for variation, group in groups.items()]


def _worst_case(variation: str, group: Sequence[Record], findings: Findings) -> Sentence:
    """The sentence about one variation, whose rows of `worst.csv` are sorted, the best first."""
    best, *others = group
    where = ""
    if variation:
        where = f", with {findings.words(variation)}"
    text = KEEPS.format(
        attacks=best["attacks"],
        where=where,
        method=best["method"],
        metric=in_words(best["metric"]),
        mean=best["mean"],
        attack=findings.words(best["attack"]),
    )
    if not others:
        return Sentence(f"{text}.", Priority.WORST_CASE)

    claims = []  # one for every method that is significantly worse
    for row in others:
        p = row["p_adjusted"]
        if p is not None and p < SIGNIFICANCE_LEVEL:
            claims.append(Claim(WORST_CASE, best["method"], row["method"], variation, p))
    if claims:
        text += BETTER_THAN.format(others=others_of(len(claims), len(others)))
    else:
        text += BETTER_THAN_NONE
    last = others[-1]
    text += LAST_KEEPS.format(
        method=last["method"],
        mean=last["mean"],
        attack=findings.words(last["attack"]),
    )
    return Sentence(f"{text}.", Priority.WORST_CASE, claims)


def breakdown_lines(findings: Findings) -> list[Sentence]:
    """Return a sentence per variation apart from attacks: where methods lose half of their gain.

    Of several attacks the worst one counts.
    """
    groups = grouped(findings.rows("breakdown"), key=_apart_from_attacks)
    return [_breakdown(variation, rows, findings) for variation, rows in groups.items()]


def _apart_from_attacks(row: Record) -> str:
    rest, _ = split_attack(variation_of(row))
    return rest


def _breakdown(variation: str, rows: Sequence[Record], findings: Findings) -> Sentence:
    """The sentence about one variation: which methods break down, which do not, which gain nothing.

    Args:
      variation: what varies apart from attacks.
      rows: rows of `breakdown.csv`, one per method and attack.
      findings: the comparison.
    """
    points: list[tuple[float, str]] = []
    holding: list[str] = []
    no_gain: list[str] = []
    by_method = grouped(rows, key=lambda row: row["method"])
    for method, of_method in by_method.items():
        falls = values_of(of_method, "falls")
        if falls:
            points.append((min(falls), method))
        elif all(row["holds"] is not None for row in of_method):
            holding.append(method)
        else:
            no_gain.append(method)
    points.sort()

    losing = [METHOD_LOSES.format(method=method, value=value) for value, method in points]
    items = [", ".join(losing)]
    if not points:
        items = [NO_METHOD_LOSES]
    elif holding:
        items.append(NOT_LOST.format(methods=", ".join(holding)))
    if no_gain:
        items.append(NO_GAIN.format(methods=", ".join(no_gain)))

    where = ""
    attacks = max(map(len, by_method.values()))
    if attacks > 1:
        where = f" under the worst of {attacks} attacks"
    if variation:
        where += f" with {findings.words(variation)}"
    text = HALF_LOST.format(axis=axis_name(MALICIOUS_AXIS), where=where, items="; ".join(items))

    falling = [method for _, method in points]
    claims = []
    for method in [*falling, *holding]:
        claims.append(Claim(FALLS, method, "", variation, None))
    return Sentence(text, Priority.BREAKDOWN, claims)

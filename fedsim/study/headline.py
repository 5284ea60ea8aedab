"""What the scores of a comparison say: which method beats the baseline, or that none does."""

from collections.abc import Sequence

from fedsim.study import claims
from fedsim.study.claims import Claim, Finding
from fedsim.study.findings import Findings
from fedsim.study.standings import BETTER, WORSE, Standing, few_seeds, too_few
from fedsim.study.words import count, difference_in_words, others_of

NO_METHOD_HAS_A_SCORE = "No method has a score"
ENDS = "{method} ends at {metric} {score}"
NO_OTHER = "Nothing is compared; {method} has the best mean, {metric} {score}"
RANGE = "from {lowest} to {highest} over {count} conditions"

NONE_ABOVE_CHANCE = "No method is above chance level"
BEST = "the best mean {metric} is {score}, with {method}"

BEATS = "{method} beats {baseline}: {metric} {score}"
IS_WORSE = "{method} is {loss}worse than {baseline}"
ARE_WORSE = "No method beats {baseline}; {others} {verb} worse"
NO_CLEAR_DIFFERENCE = "No clear difference from {baseline}"

SCORES = "{metric} {score} with {method}, {base_score} with {baseline}{chance}"
AT_CHANCE = ", which is at chance level"
P = "p = {p:.2g} after Holm"
TOO_FEW = "too few seeds for p < 0.05 after Holm over {tests}"


def score_finding(findings: Findings) -> Finding:
    """Return what is found where the comparison asks: of one method its score.

    What is not significant after Holm's adjustment is no clear difference.
    """
    group = findings.standings[findings.asked]
    where = findings.words(findings.asked)
    methods = {standing.method for by in findings.standings.values() for standing in by}
    if all(standing.mean is None for standing in group):
        return Finding(NO_METHOD_HAS_A_SCORE, where=where)
    if len(methods) == 1:
        return _of_one_method(group[0], findings)
    if group[0].chance:
        return Finding(NONE_ABOVE_CHANCE, _with_score(BEST, group[0], findings), where=where)

    compared = [standing for standing in group if standing.compared]
    bases = [standing for standing in group if standing.method == findings.baseline]
    if not compared or not bases:
        text = _with_score(NO_OTHER, group[0], findings)
        return Finding(text, where=where, main_number=_score_of(group[0], findings))
    return _against(bases[0], compared, findings)._replace(where=where)


def _of_one_method(standing: Standing, findings: Findings) -> Finding:
    """The score of the only method, and the range of its scores if something varies."""
    means = []
    for group in findings.standings.values():
        means += [one.mean for one in group if one.mean is not None]
    numbers = ""
    if len(findings.standings) > 1:
        numbers = RANGE.format(
            lowest=findings.score_text(min(means)),
            highest=findings.score_text(max(means)),
            count=len(findings.standings),
        )
    text = _with_score(ENDS, standing, findings)
    return Finding(
        text=text,
        numbers=numbers,
        begins_with_name=True,
        where=findings.words(findings.asked),
        main_number=_score_of(standing, findings),
    )


def _against(base: Standing, compared: Sequence[Standing], findings: Findings) -> Finding:
    """How the other methods compare with the baseline."""
    better = [standing for standing in compared if standing.outcome == BETTER]
    worse = [standing for standing in compared if standing.outcome == WORSE]
    shown = better[0] if better else compared[0]
    loss = ""
    if shown.row and shown.row["difference"] is not None:
        loss = f"{abs(shown.row['difference']):.3g} "
    fields = {"method": shown.method, "baseline": base.method, "loss": loss}
    seeds = max(standing.shared_seeds for standing in compared)
    if better:
        text = _with_score(BEATS, shown, findings)
    elif len(worse) == len(compared) == 1:
        text = IS_WORSE.format(**fields)
    elif worse:
        others = others_of(len(worse), len(compared))
        text = ARE_WORSE.format(**fields, others=others, verb="is" if len(worse) == 1 else "are")
    else:
        text = with_few_seeds(NO_CLEAR_DIFFERENCE.format(**fields), seeds, findings.tests)
    return Finding(
        text=text,
        numbers=_numbers(shown, base, findings),
        claims=claims_of_column(compared, findings.asked, findings),
        begins_with_name=text.startswith(shown.method),
        in_table=True,
        main_number=_score_of(shown, findings) if better else None,
    )


def claims_of_column(
    standings: Sequence[Standing], variation: str, findings: Findings
) -> list[Claim]:
    """Return the claims of the column `verdict` about methods under one variation."""
    made = []
    for standing in standings:
        if standing.outcome in (BETTER, WORSE) and standing.row:
            p = standing.row["p_adjusted"]
            claim = Claim(claims.BETTER, standing.method, findings.baseline, variation, p)
            made.append(claim)
    return made


def with_few_seeds(text: str, seeds: int, tests: int) -> str:
    """Return a text with the remark that there are too few seeds, if there are."""
    return ": ".join(filter(None, [text, few_seeds(seeds, tests)]))


def _with_score(template: str, standing: Standing, findings: Findings) -> str:
    metric, score = _score_of(standing, findings)
    return template.format(
        method=standing.method, baseline=findings.baseline, metric=metric, score=score
    )


def _score_of(standing: Standing, findings: Findings) -> tuple[str, str]:
    """The metric, and the score of a method."""
    return findings.metric_name, findings.score_text(standing.mean)


def _numbers(standing: Standing, base: Standing, findings: Findings) -> str:
    """The scores of a method and of the baseline, their difference, and how sure that is."""
    row = standing.row or {}
    scores = SCORES.format(
        metric=findings.metric_name,
        score=findings.score_text(standing.mean),
        method=standing.method,
        base_score=findings.score_text(base.mean),
        baseline=base.method,
        chance=AT_CHANCE if base.chance else "",
    )
    parts = [scores]
    if row["difference"] is not None:
        words = difference_in_words(row["difference"], row["ci_low"], row["ci_high"])
        parts.append(f"difference {words}")
    parts.append(standing.seeds_in_words)
    if too_few(standing.shared_seeds, findings.tests):
        parts.append(TOO_FEW.format(tests=count(findings.tests, "comparison")))
    elif row["p_adjusted"] is not None:
        parts.append(P.format(p=row["p_adjusted"]))
    return "; ".join(parts)

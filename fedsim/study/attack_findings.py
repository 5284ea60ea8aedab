"""What `worst.csv` and `breakdown.csv` say: what attacks leave, and where methods break down."""

from fedsim.study.breakdown import MALICIOUS_AXIS, without_path
from fedsim.study.claims import FALLS, WORST_CASE, Claim, Finding
from fedsim.study.findings import Findings
from fedsim.study.headline import with_few_seeds
from fedsim.study.pairing import SIGNIFICANCE_LEVEL
from fedsim.study.summary import grouped, in_words, values_of, variation_of
from fedsim.study.words import others_of
from fedsim.study.worst_case import split_attack

WORST_OF = "Under the worst of {attacks} attacks"
BEATS = "{worst}, {method} beats {others}"
NO_CLEAR_DIFFERENCE = "No clear difference under {attacks} attacks"
EACH_KEEPS = "{metric} {mean} with {method} ({attack}), {last_mean} with {last} ({last_attack})"
SIGNIFICANT = "; p < 0.05 after Holm"

HOLDS = "{methods} hold{s} longest: up to {share}"
NONE_GAINS = "No method clearly gains from training"
KEPT = "there it keeps at least half of what training gains, by the means"
BASELINE_HOLDS = "; {baseline} up to {share}"


def worst_case_findings(findings: Findings) -> list[Finding]:
    """Return whom the best method beats under the worst attack, where the comparison asks."""
    asked, _ = split_attack(findings.asked)
    groups = grouped(findings.rows("worst"), key=variation_of)
    if len(groups.get(asked, ())) < 2:
        return []
    best, *others = groups[asked]
    worst = WORST_OF.format(attacks=best["attacks"])
    last = others[-1]
    fields = {
        "method": best["method"],
        "metric": in_words(best["metric"]),
        "mean": findings.score_text(best["mean"]),
    }
    numbers = EACH_KEEPS.format(
        **fields,
        attack=findings.words(best["attack"]),
        last=last["method"],
        last_mean=findings.score_text(last["mean"]),
        last_attack=findings.words(last["attack"]),
    )

    claims = []  # one for every method that is significantly worse
    for row in others:
        p = row["p_adjusted"]
        if p is not None and p < SIGNIFICANCE_LEVEL:
            claims.append(Claim(WORST_CASE, best["method"], row["method"], asked, p))
    if claims:
        beaten = others_of(len(claims), len(others))
        text = BEATS.format(worst=worst, method=best["method"], others=beaten)
        numbers += SIGNIFICANT
    else:
        pairs = sum(len(group) * (len(group) - 1) // 2 for group in groups.values())
        text = NO_CLEAR_DIFFERENCE.format(attacks=best["attacks"])
        text = with_few_seeds(text, best["seeds"], pairs)
    return [Finding(text, numbers, claims, where=findings.words(asked))]


def breakdown_findings(findings: Findings) -> list[Finding]:
    """Return which method keeps half of its gain up to the largest share of malicious clients.

    Of several attacks the worst one counts.
    """
    asked, _ = split_attack(without_path(findings.asked, MALICIOUS_AXIS))
    groups = grouped(findings.rows("breakdown"), key=lambda row: split_attack(variation_of(row))[0])
    if asked not in groups:
        return []
    by_method = grouped(groups[asked], key=lambda row: row["method"])
    attacks = max(map(len, by_method.values()))
    gaining = []
    for method, rows in by_method.items():
        if values_of(rows, "holds") or values_of(rows, "falls"):
            gaining.append(method)
    where = findings.words(asked)
    holds = {}  # up to which share
    for method in gaining:
        held = values_of(by_method[method], "holds")
        if len(held) == len(by_method[method]):
            holds[method] = min(held)
    if not holds:
        return [Finding(NONE_GAINS, where=where)]

    largest = max(holds.values())
    longest = [method for method, share in holds.items() if share == largest]
    share = findings.words(f"{MALICIOUS_AXIS}={largest:g}")
    number, _, malicious = share.rpartition(" ")
    text = HOLDS.format(
        methods=longest[0] if len(longest) == 1 else f"{len(longest)} of {len(by_method)} methods",
        s="s" if len(longest) == 1 else "",
        share=share,
    )
    if attacks > 1:
        text = f"{WORST_OF.format(attacks=attacks)}, {text}"
    numbers = KEPT
    if findings.baseline in holds and findings.baseline not in longest:
        less = findings.words(f"{MALICIOUS_AXIS}={holds[findings.baseline]:g}")
        numbers += BASELINE_HOLDS.format(baseline=findings.baseline, share=less)
    claims = [Claim(FALLS, method, "", asked, None) for method in gaining]
    return [
        Finding(
            text=text,
            numbers=numbers,
            claims=claims,
            begins_with_name=attacks == 1,
            where=where,
            main_number=(malicious, number),
        )
    ]

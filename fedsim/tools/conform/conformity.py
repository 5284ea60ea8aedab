"""`fedsim.conform`: which laws a kind keeps."""

import os
from collections.abc import Sequence

from fedsim.errors import did_you_mean
from fedsim.limits import MAX_INTEGER
from fedsim.tools.conform.families import LAWS
from fedsim.tools.conform.findings import Conformity, Finding, finding
from fedsim.tools.conform.limits import limits
from fedsim.tools.conform.subjects import Subject, refusal, subjects_of


def conform(
    *targets: str | os.PathLike[str], edits: str | Sequence[str] = (), seed: int = 0
) -> list[Conformity]:
    """Try the laws of its family on every kind of a file, or on kinds by name.

    Args:
      targets: Python files, whose kinds are all examined, and kinds as `krum(f=2)`; of a file and
        kinds, those kinds.
      edits: `PATH=VALUE` texts for the scenarios in which kinds are run, for what a kind needs.
      seed: of all that is drawn.

    Returns:
      What every kind keeps; `.broken` are the laws that it must keep and does not.

    Raises:
      ScenarioError: for a file that cannot be loaded or registers nothing, a kind that has no laws,
        or a factory that fails.

    >>> import fedsim
    >>> fedsim.conform("dirichlet(alpha=0.3)")[0].broken
    []
    """
    if not targets:
        raise refusal("", "needs a file or a kind, as conform('mine.py') or conform('krum(f=2)')")
    if not 0 <= seed <= MAX_INTEGER:
        raise refusal("seed", f"is {seed}; it is an integer from 0 to {MAX_INTEGER}")
    texts = (edits,) if isinstance(edits, str) else tuple(edits)
    subjects = subjects_of(tuple(os.fspath(target) for target in targets), texts, seed)
    return [_conformity(subject) for subject in subjects]


def _conformity(subject: Subject) -> Conformity:
    """Try all laws of a subject's family, and the limits that its file claims."""
    laws = LAWS[subject.family]
    known = [law.name for law in laws]
    for name in subject.laws:
        if name not in known:
            near = did_you_mean(name, known)
            raise refusal(f"laws of {subject.kind}", f"there is no law '{name}'{near}")

    findings: list[Finding] = []
    for law in laws:
        findings.append(finding(law, subject, law.always or law.name in subject.laws))
    for law in limits(subject):
        findings.append(finding(law, subject, claimed=True))
    return Conformity(subject.family, subject.call, tuple(findings))

"""Laws and what came of them: a law is kept, broken or does not apply."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

Verdict = Literal["kept", "broken", "does not apply"]


class Inapplicable(Exception):
    """A law that says nothing about a kind; the text says why."""


class Law(NamedTuple):
    """What a kind may keep.

    Attributes:
      name: as a file claims it.
      text: what it says.
      check: subject -> the smallest counterexample that was found, as text; empty if none was. It
        raises `Inapplicable` where the law says nothing about the subject.
      always: whether every kind of the family must keep it, claimed or not.
    """

    name: str
    text: str
    check: Callable[[Any], str]
    always: bool = False


def as_law(
    function: Callable[..., Any], always: bool = False, check: Callable[[Any], str] | None = None
) -> Law:
    """Return a function as the law of its name, which its first line of documentation states.

    Args:
      check: what tries the function on a subject; left out: the function itself.
    """
    text = (function.__doc__ or "").splitlines()[0]
    return Law(function.__name__.replace("_", " "), text, check or function, always)


class Finding(NamedTuple):
    """A law, and what came of it.

    Attributes:
      law: its name.
      verdict: kept, broken or does not apply.
      claimed: whether the kind must keep it, because every kind of its family does or its file
        says so.
      detail: the counterexample, or why the law does not apply.
    """

    law: str
    verdict: Verdict
    claimed: bool
    detail: str = ""

    @property
    def fails(self) -> bool:
        """Whether a law is broken that the kind must keep."""
        return self.claimed and self.verdict == "broken"


class Conformity(NamedTuple):
    """What one kind keeps.

    Attributes:
      family: its family.
      kind: its call, as `krum(f=2)`.
      findings: one for each law of the family, and for each limit that the file claims.
    """

    family: str
    kind: str
    findings: tuple[Finding, ...]

    @property
    def broken(self) -> list[str]:
        """The laws that the kind must keep and does not."""
        return [finding.law for finding in self.findings if finding.fails]

    def __str__(self) -> str:
        """A table of the findings, one to a line under the name of the kind."""
        laws = max((len(row.law) for row in self.findings), default=0)
        lines = [f"{self.family} {self.kind}"]
        for row in self.findings:
            verdict = row.verdict.upper() if row.fails else row.verdict
            mark = "*" if row.claimed else " "
            lines.append(f"{mark} {row.law:<{laws}}  {verdict:<14}  {row.detail}".rstrip())
        return "\n".join(lines)


def finding(law: Law, subject: Any, claimed: bool) -> Finding:
    """Try a law on a subject."""
    try:
        example = law.check(subject)
    except Inapplicable as reason:
        return Finding(law.name, "does not apply", claimed, str(reason))
    verdict: Verdict = "broken" if example else "kept"
    return Finding(law.name, verdict, claimed, example)

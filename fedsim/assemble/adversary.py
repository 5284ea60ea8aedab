"""`fleet.malicious` -> the clients that the attacker controls."""

from fedsim.fleet import Adversary
from fedsim.scenario.sections import Malicious


def adversary_of(section: float | list[int] | Malicious, N: int) -> Adversary:
    """Who of N clients is malicious, by a share, a number or ids."""
    form = Malicious(ids=section) if isinstance(section, list) else section
    form = form if isinstance(form, Malicious) else Malicious(share=form)
    if form.ids is not None:
        return Adversary(ids=tuple(form.ids))
    count = form.count if form.share is None else round(form.share * N)
    return Adversary(count=count or 0, redrawn=form.per == "round")

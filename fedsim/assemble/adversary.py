"""`fleet.malicious` -> the clients that the attacker controls."""

from fedsim.data.apportionment import count_of
from fedsim.fleet import Adversary
from fedsim.scenario.sections import Malicious


def adversary_of(section: float | list[int] | Malicious, N: int) -> Adversary:
    """Return who of N clients is malicious, by a share, ids or a mapping."""
    if isinstance(section, list):
        malicious = Malicious(ids=section)
    elif isinstance(section, Malicious):
        malicious = section
    else:
        malicious = Malicious(share=section)

    if malicious.ids is not None:
        return Adversary(ids=tuple(malicious.ids))
    redrawn = malicious.per == "round"
    if malicious.share is not None:
        return Adversary(count=count_of(malicious.share, N), redrawn=redrawn)
    return Adversary(count=malicious.count or 0, redrawn=redrawn)

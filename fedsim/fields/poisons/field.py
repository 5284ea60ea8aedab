"""What attacks on data add to how a scenario is checked and built."""

from typing import Any

from fedsim.field import Alteration, Field
from fedsim.fields.poisons.attacks import PATH, with_attacks


def _attacks(spec: Any) -> list[str]:
    return [section.kind for section in spec.data.attack]


def _decides(spec: Any) -> Any:
    return spec.fleet.malicious if spec.data.attack else None


FIELD = Field(
    alteration=Alteration(
        path=PATH,
        reads=[("fleet", "malicious"), ("evaluate", "metric")],
        alter=with_attacks,
        decides=_decides,
    ),
    attacks={"data.attack": _attacks},
)

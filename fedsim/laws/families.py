"""The laws of every family that has some."""

from fedsim.laws import rules
from fedsim.laws.findings import Law
from fedsim.laws.runs import engine_laws

LAWS: dict[str, tuple[Law, ...]] = {
    "rule": (*rules.LAWS, *engine_laws("float64")),
}

"""Sections of a scenario as keys, by which programs that are equal are made once."""

from collections.abc import Iterable
from typing import Any

from fedsim.compose import FAMILIES


class HashableSection:
    """A checked section as a key: equal values and an equal factory make equal keys.

    Keys of the section that are in `without` do not count.
    """

    def __init__(self, section: Any, without: frozenset[str] | set[str] = frozenset()):
        factory = FAMILIES[section.family][section.kind]
        self.section = section
        self.key = (factory, section.model_dump_json(exclude=set(without)))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashableSection) and self.key == other.key


def hashable_sections(sections: Iterable[Any]) -> tuple[HashableSection, ...]:
    """The sections of a chain of links, as keys."""
    return tuple(map(HashableSection, sections))

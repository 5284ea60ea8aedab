"""What kinds and sections need and take away alone: `python -m fedsim.assemble.alone` writes it.

`fedsim explain`, `fedsim list --with` and a page of the documentation read what it writes.
"""

import inspect
import json
from collections.abc import Callable, Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any

from fedsim.assemble.facts import Facts
from fedsim.assemble.fields import fields, first_answer
from fedsim.assemble.link_traits import voice_of_link
from fedsim.assemble.links import Link
from fedsim.assemble.losses import voice_of_loss
from fedsim.assemble.method_traits import voice_alone
from fedsim.assemble.section_traits import voice_of_cohort
from fedsim.assemble.traits import NOUNS, SILENT, Reason, Voice
from fedsim.assemble.voices import heard
from fedsim.field import Field
from fedsim.kinds import FAMILIES
from fedsim.kinds.examples import arguments_of
from fedsim.kinds.shipped import home_of, homes, load_factories
from fedsim.scenario import read
from fedsim.scenario.shorthand import call_of

Traits = dict[str, dict[str, str]]
"""`needs` and `takes`: each of them noun -> why."""

FILE = "traits.json"

LEAST = {"name": "alone", "data": "gaussian_blobs"}

# What is written in a section, so that it needs something.
SECTIONS: dict[str, Any] = {
    "checkpoint.updates": {"checkpoint": {"updates": True}},
    "client.clip": {"client": {"clip": 1.0}},
    "client.optimizer_state": {"client": {"optimizer_state": "carry"}},
    "client.statistics": {"client": {"statistics": "pooled"}},
    "fleet.malicious": {"fleet": {"malicious": [0]}},
    "model": {"model": {"kind": "mlp", "freeze": ["layer0"]}},
    "on_nonfinite": {"on_nonfinite": "keep"},
    "server": {"server": ["mean"]},
    "wire": {"wire": ["qsgd"]},
}


# Sections that lack something, as they are called: their place, and what is known of them.
FACTS: dict[str, tuple[str, dict[str, Any]]] = {
    "data with numbers as targets": ("data", {"classes": 0, "per_token": False}),
    "data with a label for every token": ("data", {"classes": 9, "per_token": True}),
    "model without features": ("model", {"model": SimpleNamespace(features=None)}),
    "model with batch statistics": (
        "model",
        {
            "model": SimpleNamespace(features=len, mixes_rows=True),
            "shapes": {"stats": {"mean": 0}},
        },
    ),
}


def traits_alone() -> dict[str, dict[str, dict[str, Traits]]]:
    """Return package -> family -> kind -> its traits; sections are a family, too."""
    load_factories()
    traits = {
        home: {family: _of_family(family, home) for family in VOICE_OF if FAMILIES[family]}
        for home in homes()
    }
    written = {"fedsim": SECTIONS, **{name: field.sections for name, field in fields().items()}}
    lacking = {"fedsim": FACTS, **{name: field.lacking for name, field in fields().items()}}
    for home, of_home in traits.items():
        of_home["section"] = {
            **{path: _of_section(path, keys) for path, keys in written.get(home, {}).items()},
            **{name: _of_facts(*facts) for name, facts in lacking.get(home, {}).items()},
        }
        traits[home] = {family: kinds for family, kinds in of_home.items() if kinds}
    return traits


def traits_of(family: str, kind: str) -> Traits:
    """Return the traits of a kind of a family with voices, with the least arguments.

    Raises:
      KeyError: for a parameter without a default for which no example is known.
    """
    made = _made(family, kind, arguments_of(family, kind))
    return _by_side([VOICE_OF[family](kind, made)])


def _made(family: str, kind: str, arguments: dict[str, Any]) -> Any:
    """What the factory of a kind makes, with the codec inside it."""
    if family == "codec" and "codec" in arguments:
        inner = call_of(arguments["codec"]) or {}
        arguments = {**arguments, "codec": _made("codec", inner.pop("kind"), inner)}
    return FAMILIES[family][kind](**arguments)


def _of_family(family: str, home: str) -> dict[str, Traits]:
    """The kinds of a family that a package ships."""
    kinds = [
        kind
        for kind, factory in FAMILIES[family].items()
        if home_of(inspect.unwrap(factory)) == home
    ]
    return {kind: traits_of(family, kind) for kind in kinds}


def _of_section(path: str, written: Any) -> Traits:
    """The traits of a section, by the voices that stand there."""
    facts = Facts(read({**LEAST, **written}))
    return _by_side(voice for voice in heard(facts) if ".".join(map(str, voice.path)) == path)


def _of_facts(place: str, known: dict[str, Any]) -> Traits:
    """The traits of a section of which this is known."""
    facts = Facts(read(LEAST), **known)
    return _by_side(voice for voice in heard(facts) if voice.path == (place,))


def _by_side(voices: Iterable[Voice]) -> Traits:
    """What voices say, by noun."""
    traits: Traits = {"needs": {}, "takes": {}}
    for voice in voices:
        traits["needs"] |= _by_noun(voice.needs)
        traits["takes"] |= _by_noun(voice.takes)
    return traits


def _by_noun(reasons: list[Reason]) -> dict[str, str]:
    return {reason.noun: reason.text for reason in reasons}


def _link(family: str, kind: str, made: Any) -> Voice:
    """A link in its usual place."""
    place = "wire" if family in ("codec", "attack") else "server"
    section = SimpleNamespace(family=family, kind=kind, denominator="actual")
    return voice_of_link(Link((place, 0), section, made))


def _of_fields(family: str, kind: str, made: Any) -> Voice:
    """A kind of a family that fields speak for."""

    def voice(field: Field) -> Voice | None:
        speak = field.voices_of_kinds.get(family)
        return None if speak is None else speak(kind, made)

    return first_answer(voice) or SILENT


LINKS = ("rule", "stage", "aggregate_stage", "attack", "codec")
VOICE_OF: dict[str, Callable[[str, Any], Voice]] = {
    "client": voice_alone,
    "loss": voice_of_loss,
    **{family: partial(_link, family) for family in LINKS},
    "cohort": voice_of_cohort,
    **{family: partial(_of_fields, family) for family in ("timetable", "topology")},
}

if __name__ == "__main__":
    for home, traits in traits_alone().items():
        contents = {"nouns": NOUNS, **traits} if home == "fedsim" else traits
        (homes()[home] / FILE).write_text(json.dumps(contents, indent=1) + "\n")

"""What must hold of codecs on the wire: every problem is a place and a remedy, as in `build.feasibility`."""

from collections.abc import Iterator
from typing import Any

from fedsim.compose import most_bytes
from fedsim.engine.footprint import coding_bytes
from fedsim.errors import TooLarge
from fedsim.limits import MOST, require_memory
from fedsim.scenario.reader import Path
from fedsim.scenario.scenario import Scenario
from fedsim.types import Client, Codec, Rule, forgetful, no_row

Link = tuple[Path, Any, Any]  # path, section, what its factory made


def second_codec(links: list[Link]) -> Iterator[tuple[Path, str]]:
    """One message is encoded once."""
    codecs = [(path, section) for path, section, _ in links if section.family == "codec"]
    for path, section in codecs[1:]:
        text = f"{section.kind} is a second codec, after {codecs[0][1].kind}; a message is encoded once, take one out"
        inside = "top_k(values: ...) for the values that a sparsifier keeps, error_feedback(codec: ...) for a memory"
        yield path, f"{text}, or write one into the other: {inside}"


def forgotten(
    scenario: Scenario, path: Path, section: Any, made: Any, client: Client
) -> Iterator[tuple[Path, str]]:
    """A stage that remembers one message a round, behind a method that sends two."""
    if (
        client.probe is not None and remembers(made) and not isinstance(made, Rule)
    ):  # which sees the second one alone
        kind = scenario.spec.client.kind
        text = f"{section.kind} remembers one message of a client, and {kind} sends two a round"
        yield (
            path,
            f"{text}, a gradient at the shared model first; take another method, or leave it out",
        )


def no_downlink(path: Path, section: Any, made: Any) -> Iterator[tuple[Path, str]]:
    """A codec for updates whose memory means nothing between one model and the next."""
    kind = section.kind
    if kind == "error_feedback":
        text = f"{kind} adds what it left out of one model to the next one, and clients would train from the sum"
        yield (
            path,
            f"{text}; take ef21(codec: {section.codec.kind}), which sends differences, or the codec alone",
        )
    elif isinstance(made, Codec) and made.server is not None:
        yield (
            path,
            f"{kind} with k has a memory behind the rule, and a broadcast has no rule; leave k out",
        )


def check_size(scenario: Scenario, path: Path, section: Any, made: Any, params: Any) -> None:
    """A codec whose messages can be counted, and whose arrays for one of them fit into memory, by their shapes.

    Raises:
      TooLargeError: where they do not.
    """
    if not isinstance(made, Codec):
        return
    if (size := most_bytes(made, params)) > MOST:
        text = f"{section.kind}: a message of {size} bytes; at most {MOST} can be counted; make it smaller"
        raise scenario.too_large(path, text)
    try:
        require_memory(codec=coding_bytes(made, params))
    except TooLarge as error:
        raise scenario.too_large(path, f"{section.kind}: {error}; make it smaller") from None


def remembers(made: Any) -> bool:
    """Whether a link keeps a row of every client."""
    nothing = no_row if isinstance(made, Codec) else forgetful
    if isinstance(made, Rule):
        return made.before is not None and remembers(made.before)
    return getattr(made, "memory", nothing) is not nothing


def linear_partners(links: list[Link]) -> Iterator[tuple[Path, str]]:
    """Payloads of a linear codec can be summed, and nothing else."""
    codec = next((link for link in links if isinstance(link[2], Codec) and link[2].linear), None)
    if codec is None:
        return
    section = codec[1]
    for path, other, made in links[links.index(codec) + 1 :]:
        text = f"works on updates, and {section.kind} sends their payloads, which are decoded as a sum behind the rule"
        if other.family in ("stage", "attack"):
            yield path, f"{other.kind} {text}; take it out, or put it before the codec"
        if isinstance(made, Rule) and not made.linear:
            yield (
                path,
                f"{other.kind} {text}; take the rule mean, or a codec that is decoded row by row",
            )

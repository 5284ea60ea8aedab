"""Ways to spoil the text of a scenario, each steered by two whole numbers: where, and by what."""

import re


def words(text: str) -> list[str]:
    """What stands between spaces."""
    return text.split()


SNIPPETS = (
    *words("{ } [ ] : , # ' \" | > ! @ ` \\ {a: [1 '\\n --- ... é"),
    *(": ", "- ", "? ", " #", "\n", "\t", "  ", "&a ", "*a", "<<: ", "---\n", "%YAML 1.2\n"),
    *("!!python/object/apply:os.system [id]", "!!float x", "!!bool maybe", '"\\x00"', '"\\q"'),
    *(
        "\ufeff",
        "\x00",
        "\x1b[31m",
        "\x85",
        "\u2028",
        "\u202e",
        "\U0001f600",
        "\udc80",
        "\r",
        "\r\n",
    ),
    *("\r\n", "{a: 1}", "[1, 2", "[" * 25, "{a: " * 25, "a" * 5000, "9" * 5000, "\n" * 200),
)
SCALARS = words("""
    1e-3 no yes on 010 1:30 0x1F 0o7 1_000 .nan .inf -.inf ~ null true 2026-01-01 12:30:45
    1e999 -1 0 0.0 -0.0 1.5 99999999999999999 999999999999999999999999999999 1. .5 1e5 1,5
    [] {} [1] [[0]] {kind:mean} mean digits sgd krum(f=1) fedprox(mu=0.1) krum(f=[ scaffold
    os.system ../../etc/passwd '<script>' "\\x1b[31m" =cmd()
""")
SCALARS += ["", "{kind: mean}", "{kind: digits}", "{kind: 5}"]
KEYS = words("""
    name rounds seeds method data model fleet cohort client wire server evaluate kind partition
    lr steps epochs alpha size norm trim f weights 1 rouns
""")
KEYS += ["'a b'"]


def flipped(text: str, where: int, what: int) -> str:
    """One character becomes another one."""
    at = where % (len(text) + 1)
    return text[:at] + chr(what % 0x180) + text[at + 1 :]


def inserted(text: str, where: int, what: int) -> str:
    """Something that means something to YAML."""
    at = where % (len(text) + 1)
    return text[:at] + SNIPPETS[what % len(SNIPPETS)] + text[at:]


def cut(text: str, where: int, what: int) -> str:
    """Some characters fewer."""
    at = where % (len(text) + 1)
    return text[:at] + text[at + what % 40 :]


def line_deleted(text: str, where: int, what: int) -> str:
    """A line fewer."""
    lines = text.split("\n")
    del lines[where % len(lines)]
    return "\n".join(lines)


def indented(text: str, where: int, what: int) -> str:
    """A line moved to the right or to the left."""
    lines = text.split("\n")
    i = where % len(lines)
    lines[i] = " " * (what % 7) + lines[i].lstrip(" ")
    return "\n".join(lines)


def value_replaced(text: str, where: int, what: int) -> str:
    """A value becomes an odd one."""
    return _replaced(r"(?<=: )[^\s,{}\[\]]+", text, where, SCALARS[what % len(SCALARS)])


def key_renamed(text: str, where: int, what: int) -> str:
    """A key becomes another one."""
    return _replaced(r"[A-Za-z_]+(?=:)", text, where, KEYS[what % len(KEYS)])


def _replaced(pattern: str, text: str, where: int, by: str) -> str:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    one = found[where % len(found)]
    return text[: one.start()] + by + text[one.end() :]


FREQUENT = (inserted, value_replaced)  # drawn twice as often
MUTATIONS = (flipped, cut, line_deleted, indented, key_renamed, *FREQUENT, *FREQUENT)

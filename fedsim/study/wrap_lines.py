"""Sentences about sums of integers that left their range, and came out as others."""

from collections.abc import Sequence

from fedsim.study.summary import Record

COLUMN = "/wrapped"  # how the columns end, behind the name of a codec

LINE = (
    "{codec}: in {rounds} of {all} rounds, {wrapped:,.0f} sums of coordinates wrapped, and are "
    "others at the server; give it more bits, or a coarser granularity."
)


def wrap_lines(rounds: Sequence[Record]) -> list[str]:
    """Return a sentence for every codec whose sums wrapped."""
    lines = []
    for column in dict.fromkeys(name for row in rounds for name in row if name.endswith(COLUMN)):
        counts = [row[column] for row in rounds if row.get(column) is not None]
        wrapped = [count for count in counts if count > 0]
        if wrapped:
            codec = column.removesuffix(COLUMN)
            of_rounds = {"rounds": len(wrapped), "all": len(counts)}
            lines.append(LINE.format(codec=codec, wrapped=sum(wrapped), **of_rounds))
    return lines

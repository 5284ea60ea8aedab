"""The keys of the data section that all tables have."""

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from fedsim.kinds.targets import TimeAndEvent
from fedsim.sources.arrays import Arrays
from fedsim.sources.cells import Task
from fedsim.sources.files import Name

Missing = Literal["refuse", "mean", "median", "constant", "drop"]
Statistics = Literal["all", "client"]
Dates = Literal["ordinal"] | None


class TableKeys(NamedTuple):
    """What a scenario decides about a table.

    Args:
      target: the column of the labels; or of survival, `{time: COLUMN, event: COLUMN}`: times above
        0, and an event, 1, or none by then, 0; or of several labels, `[COLUMN, ...]`: a 1 where the
        sample has the label, else 0.
      client: the column of the client ids; left out: `client`, if there is such a column. Tables
        show the ids.
      missing: blanks are refused; or replaced by the column's `mean` or `median` over the training
        samples, or by the `constant` number `fill` (in a column of text a blank is a category); or
        their samples are dropped. A blank label is refused except with `drop`.
      standardize: subtract each feature's mean and divide by its standard deviation, both over the
        training samples; features that are 0 or 1 stay, constant ones become 0.
      statistics: whose training samples means, medians and deviations are taken over: of `all`
        clients, or of the `client` itself, which the samples have to name. A client that never
        trains takes its own rows. Where a client has no number, those of all clients are taken.
      indicators: a further feature for each column of numbers with blanks, 1 where it is blank.
      fill: what `constant` puts in place of blanks.
      dates: columns of dates are refused, or, with `ordinal`, features.
      task: what the target is, whatever its numbers look like: `classification`, with whole numbers
        as classes, or `regression`.
      drop: columns that are left out.
      columns: columns for partitions, which are not features; the one that the partition names need
        not be listed.
    """

    target: Name | TimeAndEvent | list[str] = "y"
    client: Name | None = None
    missing: Missing = "refuse"
    standardize: bool = False  # this and the next three are for `fedsim.data.prepare`
    statistics: Statistics = "all"
    indicators: bool = False
    fill: float = 0.0
    dates: Dates = None
    task: Task = None
    drop: list[str] = []  # noqa: RUF012 (read, never changed)
    columns: list[str] = []  # noqa: RUF012


def with_table_keys(reader: Callable[..., Arrays]) -> Callable[..., Arrays]:
    """Decorator: a reader whose parameter `keys` is a parameter for each field of `TableKeys`."""
    own = dict(inspect.signature(reader, eval_str=True).parameters)
    shared = inspect.signature(TableKeys, eval_str=True).parameters
    parameters = []
    for name, parameter in own.items():
        parameters += shared.values() if name == "keys" else [parameter]
    signature = inspect.Signature(parameters, return_annotation=Arrays)

    @functools.wraps(reader)
    def read(*positional: Any, **named: Any) -> Arrays:
        given = signature.bind(*positional, **named).arguments
        keys = {name: given.pop(name) for name in shared if name in given}
        return reader(**given, keys=TableKeys(**keys))

    described = (inspect.getdoc(TableKeys) or "").partition("Args:\n")[2].rstrip()
    read.__doc__ = re.sub(r"  keys: .*", lambda _: described, inspect.getdoc(reader) or "")
    read.__dict__["__signature__"] = signature
    read.__annotations__ = {p.name: p.annotation for p in parameters}
    return read

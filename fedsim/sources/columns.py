"""The columns of a table -> `Arrays`: roles, one-hot features, blanks."""

from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

import numpy as np

from fedsim.errors import DataError
from fedsim.sources.arrays import Arrays
from fedsim.sources.cells import MOST_CATEGORIES, Features, ids, is_blank, labels
from fedsim.sources.classes import fault_of_classes
from fedsim.sources.faults import Faults

Missing = Literal["refuse", "mean", "median", "drop"]
BLANK_CATEGORY = "(blank)"


class Roles(NamedTuple):
    """Which column of a table is what: places among all of its columns."""

    names: list[str]  # of all columns
    target: int
    client: int | None
    features: list[int]
    kept: list[int]  # neither: they are kept for the partition


def roles(
    names: Sequence[str],
    target: str,
    client: str | None,
    drop: Sequence[str],
    columns: Sequence[str] = (),
) -> Roles:
    """What the columns of a table are.

    Args:
      names: of all columns.
      target: of the labels.
      client: of the ids; None: `client`, if there is such a column.
      drop: columns that are left out.
      columns: that are kept, and are no features.

    Raises:
      DataError: for names that are not there, or stand twice, and for a table without features; all of it at once.
    """
    names = list(names)
    if not names:
        raise DataError("empty: a header with column names is needed")
    twice = [(name, count) for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            *(
                f"{_number(n)} columns are called {name[:40]!a}; give each its own name"
                for name, n in twice[:5]
            )
        )
    named = [
        ("target", target),
        *([("client", client)] if client is not None else []),
        *(("drop", d) for d in drop),
    ]
    named += [("column", c) for c in columns]
    lines = [
        f"{role}: no column {name[:40]!a}; {_instead(name, names)}"
        for role, name in named
        if name not in names
    ]
    if client is None and "client" in names and "client" not in (target, *drop):
        client = "client"
    if target == client:
        lines.append(f"column {target[:40]!a} cannot be both target and client")
    lines += [
        f"drop: column {name[:40]!a} is the {role}"
        for role, name in named
        if role != "drop" and name in drop
    ]
    features = [
        place for place, name in enumerate(names) if name not in (target, client, *drop, *columns)
    ]
    if not features and not lines:
        lines.append(f"no feature columns besides {target[:40]!a}")
    if lines:
        raise DataError(*lines)
    kept = [names.index(name) for name in dict.fromkeys(columns)]
    return Roles(
        names, names.index(target), None if client is None else names.index(client), features, kept
    )


def arrays_of(
    roles: Roles,
    features: Features,
    target: Sequence[str],
    client: Sequence[str],
    kept: Sequence[Sequence[str]],
    missing: Missing,
    faults: Faults,
) -> Arrays:
    """The samples of a table that was read.

    Blanks among numbers stay NaN under `mean` and `median`, whose statistics are those of the training samples; blanks in
    a column of text are a category of their own then.

    Args:
      roles: which column is what.
      features: the feature columns.
      target: cells of the target column.
      client: cells of the client column; none where there is none.
      kept: cells of each column that is kept.
      missing: what happens to blanks.
      faults: what was wrong so far.

    Raises:
      DataError: with a line for everything that is wrong.
    """
    numbers, drop = features.numbers, missing == "drop"
    if not len(numbers):
        faults.raise_any()
        raise DataError("no samples")
    y = labels(target, numbers, roles.target, faults, drop, features.number)
    if roles.target not in faults.columns and (fault := fault_of_classes(y)) is not None:
        faults.add(-1, roles.target, fault)
    who = None if roles.client is None else ids(client, numbers, roles.client, faults)
    columns = {
        roles.names[j]: ids(cells, numbers, j, faults, "value")
        for j, cells in zip(roles.kept, kept, strict=True)
    }
    x = features.table()
    for row, j in np.argwhere(~np.isfinite(x)):
        if np.isinf(x[row, j]):
            faults.add(numbers[row], roles.features[j], f"{x[row, j]} is no number to learn from")
        elif missing == "refuse":
            faults.add(
                numbers[row], roles.features[j], "blank; write missing: mean, median or drop"
            )
    for j, texts in enumerate(features.texts):
        if texts is not None and len(texts) > MOST_CATEGORIES:
            text = f"more than {MOST_CATEGORIES} different texts, too many for one-hot features"
            name = ascii(roles.names[roles.features[j]][:40])
            faults.add(
                -1,
                roles.features[j],
                f"{text}; write drop: [{name}], or client: {name} if it says whose a sample is",
            )
    faults.raise_any()
    if drop:
        whole = ~np.isnan(x).any(1) & ~np.array([is_blank(cell) for cell in target], bool)
        x, y, who = x[whole], y[whole], None if who is None else who[whole]
        columns = {name: values[whole] for name, values in columns.items()}
    if not len(y):
        raise DataError("every sample has a blank")
    names = [roles.names[place] for place in roles.features]
    return _one_hot(Arrays(x, y, who, columns=columns), names, features.texts)


def _one_hot(
    arrays: Arrays, names: Sequence[str], texts: Sequence[dict[str, int] | None]
) -> Arrays:
    """A column of text becomes a feature for every text that it holds, in the order of the sorted texts; 1 where it is."""
    if not any(column is not None for column in texts):
        return arrays._replace(features=tuple(names))
    blocks: list[np.ndarray] = []
    titles: list[str] = []
    for j, (name, column) in enumerate(zip(names, texts, strict=True)):
        values = arrays.x[:, j : j + 1]
        if column is None:
            blocks.append(values)
            titles.append(name)
            continue
        present = set(values[~np.isnan(values)].tolist())
        categories = sorted(text for text, code in column.items() if code in present)
        blocks.append(values == np.array([column[text] for text in categories]))
        titles += [f"{name}={text}" for text in categories]
        if np.isnan(values).any():
            blocks.append(np.isnan(values))
            titles.append(f"{name}={BLANK_CATEGORY}")
    return arrays._replace(
        x=np.concatenate(blocks, axis=1, dtype=np.float64), features=tuple(titles)
    )


def _instead(name: str, names: Sequence[str]) -> str:
    """A column with a name like the one asked for, or the first ones that there are."""
    near = get_close_matches(
        name[:40], [column for column in names[:1000] if len(column) < 60], 1, 0.6
    )
    listed = ", ".join(ascii(column[:40]) for column in names[:6])
    return (
        f"did you mean {near[0]!a}?" if near else f"there are {listed}{' ...' * (len(names) > 6)}"
    )


def _number(count: int) -> Any:
    return "two" if count == 2 else count

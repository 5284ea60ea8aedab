"""The differences of two runs as lines to read."""

from collections.abc import Iterator

from fedsim.runs.diff import TABLES, Difference
from fedsim.study.row_differences import Field, RowDifferences

SHOWN = 20  # differing fields of a group, columns of a row


def described(difference: Difference) -> Iterator[str]:
    """The parts that differ, then the names of those that do not."""
    for name, fields in difference.groups.items():
        yield from _listed(name, fields)
    for name, rows in difference.tables.items():
        yield f"{name}.csv: {_counted(difference, rows)}"
        yield from (f"  {field.name}: {field.a} | {field.b}" for field in rows.fields[:SHOWN])
        for column in rows.columns:
            if column.absolute is not None:
                gap = f"{column.absolute:.3g}, relative {column.relative:.3g}"
                yield f"  {column.name}: differs in {column.rows} row{'s'[: column.rows > 1]}, by at most {gap}"
    for model in difference.models:
        gap = "" if model.absolute is None else f", by at most {model.absolute:.3g}"
        yield f"{model.name}: {model.what}{gap}"
    yield from _listed("surroundings (which change no bit)", difference.surroundings)
    tables = {f"{name}.csv": difference.tables.get(name) for name in TABLES}
    parts = {**difference.groups, **tables, "models": difference.models}
    same = [name for name, part in parts.items() if not part]
    yield f"the same: {', '.join(same)}" if same else "nothing is the same"


def _listed(name: str, fields: list[Field]) -> Iterator[str]:
    if fields:
        yield name
    yield from (f"  {field.name}: {field.a} | {field.b}" for field in fields[:SHOWN])
    if len(fields) > SHOWN:
        yield f"  ... {len(fields) - SHOWN} more"


def _counted(difference: Difference, rows: RowDifferences) -> str:
    if rows.a is None or rows.b is None:
        return f"not in {difference.a if rows.a is None else difference.b}"
    counts = ((rows.only_a, difference.a), (rows.only_b, difference.b))
    single = [f"{n} only in {path}" for n, path in counts if n]
    numbers = ", ".join([f"{rows.differing} of {rows.a - rows.only_a} rows differ", *single])
    return f"{numbers}; first: {rows.first}" if rows.first else numbers

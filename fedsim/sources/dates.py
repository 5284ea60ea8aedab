"""Dates as numbers: days since 1970-01-01 00:00 UTC, times of the day as fractions of a day."""

import re
from datetime import UTC, date, datetime

import numpy as np

DATE = r"\d{4}-\d\d-\d\d"
TIME = r"\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
OFFSET = r"Z|[+-]\d\d(?::?\d\d)?"
ISO = re.compile(rf"{DATE}(?:[T ]{TIME}(?:{OFFSET})?)?", re.ASCII)
FIRST_DAY = date(1970, 1, 1).toordinal()
START = datetime(1970, 1, 1, tzinfo=UTC)
DAY_SECONDS = 86_400.0


def as_days(cell: str) -> float | None:
    """Return an ISO date as days since 1970-01-01 UTC; None for other text.

    A time without an offset is UTC.

    >>> as_days("1970-01-02"), as_days("1970-01-02T12:00+06:00"), as_days("2.1.1970")
    (1.0, 1.25, None)
    """
    if not ISO.fullmatch(cell):
        return None
    try:
        if len(cell) == 10:
            return float(date.fromisoformat(cell).toordinal() - FIRST_DAY)
        moment = datetime.fromisoformat(cell)
    except ValueError:  # such as the 30th of February
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - START).total_seconds() / DAY_SECONDS


def date_of(days: float) -> str:
    """Return days since 1970-01-01 UTC as an ISO date, with the time where it is not midnight.

    >>> date_of(1.0), date_of(1.25)
    ('1970-01-02', '1970-01-02T06:00:00')
    """
    moment = np.datetime64(0, "s") + np.timedelta64(round(days * DAY_SECONDS), "s")
    return str(moment).removesuffix("T00:00:00")


def days_of(moments: np.ndarray) -> np.ndarray:
    """Moments (datetime64, UTC) or durations (timedelta64) `[n]` as days; NaT becomes NaN.

    >>> days_of(np.array(["1970-01-03T06:00", "NaT"], "datetime64[s]")).tolist()
    [2.25, nan]
    """
    durations = moments - np.datetime64(0, "s") if moments.dtype.kind == "M" else moments
    return durations / np.timedelta64(1, "D")

"""Dates in tables: days since 1970-01-01 UTC, in any format; other cells among them are faults."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

from fedsim.errors import DataError
from fedsim.sources import columns, csv, parquet
from fedsim.sources.cells import days_in, days_of
from fedsim.sources.table_keys import TableKeys


def of_frame(frame: pd.DataFrame, **keys):
    return columns.of_frame(frame, TableKeys(**keys))


CELLS = {
    "1970-01-01": 0,
    "1969-12-31": -1,
    "0001-01-01": -719162,
    "9999-12-31": 2932896,
    "2024-02-29T18:00": 19782.75,
    "2024-02-29 06:00:00": 19782.25,
    "2024-02-29T06:00:00Z": 19782.25,
    "2024-02-29T00:00:00-0630": 19782 + 6.5 / 24,
    "2024-02-29T00:00:00-12": 19782.5,
    "2024-02-29T00:00:43.200": 19782.0005,
}
NO_DATES = [
    "2023-02-29", "2024-13-01", "20240501", "2024-W18-3", "1.5.2024", "05/01/2024", "now", "today",
    "12:00", "2024-05-01T24:30", "2024-05-01T", "2024-05-01Z", "x2024-05-01", "٢٠٢٤-05-01",
    "2024-05-01T12:00:00+99:00", "",
]  # fmt: skip


def test_days():
    days = days_in(pd.Series([*CELLS, *NO_DATES]))
    np.testing.assert_allclose(days[: len(CELLS)], list(CELLS.values()), atol=1e-9)
    assert np.isnan(days[len(CELLS) :]).all()


def test_every_way_to_hold_dates_gives_the_same_features_where_asked_for(tmp_path):
    texts = ["2024-05-01", "2024-02-29", "", "1969-07-20"]
    naive = pd.Series(pd.to_datetime(texts))
    columns = {
        "text": texts,
        "naive": naive,
        "aware": naive.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"),
        "objects": [dt.date.fromisoformat(text) if text else None for text in texts],
    }
    frame = pd.DataFrame({**columns, "a": 0.5, "y": [0, 1, 0, 1]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    sources = (
        (of_frame, frame),
        (csv, str(tmp_path / "t.csv")),
        (parquet, str(tmp_path / "t.parquet")),
    )
    days = np.array([19844, 19782, np.nan, -165.0])
    for reader, source in sources:
        with pytest.raises(DataError, match=r"'text': dates, .*write dates: ordinal .*or"):
            reader(source, missing="mean")
        assert reader(source, missing="mean", drop=[*columns]).features == ("a",)
        got = reader(source, missing="mean", dates="ordinal")
        np.testing.assert_array_equal(got.x[:, :4], np.repeat(days[:, None], 4, 1))
        assert got.features == (*columns, "a")


def test_blank_dates_are_blank_numbers(tmp_path):
    (tmp_path / "t.csv").write_text("when,y\n2024-05-01,0\nNA,1\n2024-05-03,1\n")
    blank = "row 3, column 'when': blank; write missing: mean, median or drop"
    with pytest.raises(DataError, match=blank):
        csv(str(tmp_path / "t.csv"), dates="ordinal")
    got = csv(str(tmp_path / "t.csv"), missing="drop", dates="ordinal")
    assert got.x.tolist() == [[19844], [19846]]


def test_durations_and_units():
    frame = pd.DataFrame({"stay": pd.to_timedelta(["1D", "36h"]), "y": [0, 1]})
    assert of_frame(frame).x.tolist() == [[1], [1.5]]
    for unit in ("s", "ms", "us", "ns"):
        assert days_of(np.array(["1970-01-02T12:00", "NaT"], f"datetime64[{unit}]"))[0] == 1.5


def test_a_column_of_dates_and_others(tmp_path):
    """Half of the cells are dates: the others are faults. Fewer: text. Numbers come first."""
    path = tmp_path / "t.csv"
    path.write_text("when,y\n2024-05-01,0\nsoon,1\n2024-05-03,1\n")
    fault = "row 3, column 'when': 'soon' is not a date, but most cells of the column are"
    with pytest.raises(DataError, match=fault):
        csv(str(path))
    path.write_text("when,y\n2024-05-01,0\nsoon,1\nlater,1\n")
    assert csv(str(path)).features == ("when=2024-05-01", "when=later", "when=soon")
    path.write_text("when,y\n2024,0\n2025-05-01,1\n")
    with pytest.raises(DataError, match="'2025-05-01' is not a number"):
        csv(str(path))

"""Users' tables: what is read, and what is refused in a line with row and column."""

import gzip

import numpy as np
import pandas as pd
import pytest

from fedsim.errors import DataError
from fedsim.sources import columns, csv, parquet
from fedsim.sources.table_keys import TableKeys

SMALL = "age,colour,ill,ward\n30,red,yes,B\n40,blue,no,A\n50,red,no,B\n60,green,yes,A\n"


def table(folder, content: str | bytes, **options):
    path = folder / "t.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return csv(str(path), **options)


def of_frame(frame: pd.DataFrame, **keys):
    return columns.of_frame(frame, TableKeys(**keys))


def refused(read_it, *arguments, **options) -> list[str]:
    with pytest.raises(DataError) as error:
        read_it(*arguments, **options)
    return [line.rpartition("t.csv: ")[2] for line in error.value.lines]


@pytest.mark.parametrize("between", [",", ";", "\t", "|"])
def test_delimiters_are_recognised(tmp_path, between):
    lines = SMALL.replace(",", between).replace(f"red{between}", f'"red{between}ish"{between}')
    got = table(tmp_path, lines, target="ill", client="ward")
    assert got.features == ("age", "colour=blue", "colour=green", f"colour=red{between}ish")
    assert got.x.tolist() == [[30, 0, 0, 1], [40, 1, 0, 0], [50, 0, 0, 1], [60, 0, 1, 0]]
    assert got.y.tolist() == ["yes", "no", "no", "yes"]
    assert got.client.tolist() == ["B", "A", "B", "A"]


SNIFFED = {
    "a header with commas": ('"price, EUR";"y"\n"1";"0"\n"2";"1"\n', ["price, EUR"]),
    "texts with all of them": ('t,y\n"a, b; c | d",0\ne,1\n', ["t=a, b; c | d", "t=e"]),
    "apostrophes": ("t,y\nit's,0\n'tis,1\n", ["t='tis", "t=it's"]),
    "blank cells": ("a,b,c,y\n1,2,3,1\n1,,2,0\n,3,,1\n", ["a", "b", "c"]),
    "a time": ("t,a,y\n10:00,2,0\n11:00,1,1\n", ["t=10:00", "t=11:00", "a"]),
    "a single row": ("a;y\n1;0\n", ["a"]),
}


@pytest.mark.parametrize("what", SNIFFED)
def test_a_delimiter_is_told_from_the_same_character_in_texts(what, tmp_path):
    content, features = SNIFFED[what]
    assert list(table(tmp_path, content, missing="mean").features) == features


def test_other_delimiters_are_named(tmp_path):
    colons = "a:y\n1:0\n2:1\n"
    assert table(tmp_path, colons, delimiter=":").x.tolist() == [[1], [2]]
    assert refused(table, tmp_path, colons) == ["target: no column 'y'; there are 'a:y'"]


def test_decimal_commas_are_asked_for(tmp_path):
    """They are never taken for text, nor points for them; the delimiter is another character."""
    rows = "a;n;y\n1,5;2;0\n2;2,5;1\n,5;1;0\n"
    assert refused(table, tmp_path, rows) == [
        "column 'a': '1,5' has a decimal comma, or one between thousands; write decimal: ',', or "
        "1234.5",
        "row 3, column 'n': '2,5' is not a number",
    ]
    assert table(tmp_path, rows, decimal=",").x.tolist() == [[1.5, 2], [2, 2.5], [0.5, 1]]
    assert refused(table, tmp_path, rows.replace(";", ","), decimal=",", delimiter=",") == [
        "decimal: ',' is also the delimiter; change one of them"
    ]
    assert refused(table, tmp_path, rows + "1.500,5;2;1\n", decimal=",") == [
        "row 5, column 'a': '1.500,5' is not a number"
    ]
    tags = table(tmp_path, "a;tags;y\n1;x,y;0\n2;1,2;1\n3;z;0\n")
    assert list(tags.features) == ["a", "tags=1,2", "tags=x,y", "tags=z"]


def test_gzip_is_unpacked(tmp_path):
    got = table(tmp_path, gzip.compress(SMALL.encode()), target="ill", drop=["colour", "ward"])
    assert got.x.tolist() == [[30], [40], [50], [60]] and got.client is None


def test_gzip_that_unpacks_to_too_much_is_refused_long_before_its_end(tmp_path):
    ones = gzip.compress(b"1" * (4 << 20))  # a thousandth
    bomb = gzip.compress(b"a,y\n") + 400 * ones
    (line,) = refused(table, tmp_path, bomb)
    unpacked = int(line.partition("more than ")[2].split()[0])
    assert unpacked < 200 * len(bomb) / 4


def test_blanks_and_text_by_rule(tmp_path):
    rows = "a,b,y\n1, x ,0\nNA,y,1\n?,,0\n5,x,1\n"
    assert refused(table, tmp_path, rows) == [
        "row 3, column 'a': blank; write missing: mean, median or drop",
        "row 4, column 'a': blank; write missing: mean, median or drop",
        "row 4, column 'b': blank; write missing: mean, median or drop",
    ]
    filled = table(tmp_path, rows, missing="mean")
    assert filled.features == ("a", "b=x", "b=y", "b=(blank)")
    np.testing.assert_array_equal(
        filled.x, [[1, 1, 0, 0], [np.nan, 0, 1, 0], [np.nan, 0, 0, 1], [5, 1, 0, 0]]
    )
    kept = table(tmp_path, rows, missing="drop")
    assert kept.features == ("a", "b=x")
    assert kept.x.tolist() == [[1, 1], [5, 1]] and kept.y.tolist() == [0, 1]


def test_all_errors_of_a_table_at_once(tmp_path):
    rows = 'a,b,client,y\n1,2,k,0\nx,inf,k,1\n1,2,k\n3,4,,2\n5,"1,5",k,cat\n6,,k,NA\n'
    assert refused(table, tmp_path, rows) == [
        "row 3, column 'a': 'x' is not a number",
        "row 3, column 'b': inf cannot be a feature",
        "row 4, column 'y': a sample without a label; write missing: drop to leave such rows out",
        "row 5, column 'client': a sample without a client id",
        "row 6, column 'b': '1,5' is not a number",
        "row 6, column 'y': 'cat' is not a number, but most labels are",
        "row 7, column 'b': blank; write missing: mean, median or drop",
        "row 7, column 'y': a sample without a label; write missing: drop to leave such rows out",
    ]
    many = refused(table, tmp_path, "a,y\n" + "1,0\n" * 2000 + "x,0\n" * 1500)
    assert len(many) == 21
    assert many[0].startswith("row 2002") and many[-1] == "and 1,480 more problems"
    lines = refused(table, tmp_path, "a,y\n1,0\n", target="z", client="k", drop=["b"])
    assert [line.split(":")[0] for line in lines] == ["target", "client", "drop"]


def test_a_column_of_many_texts_is_refused_with_what_to_do(tmp_path):
    rows = "a,name,y\n" + "".join(f"{i},person {i},0\n" for i in range(101))
    assert refused(table, tmp_path, rows) == [
        "column 'name': more than 100 different texts, too many for one-hot features; "
        "write drop: ['name'], or client: 'name' if it says whose a sample is"
    ]
    assert table(tmp_path, rows, client="name").client[7] == "person 7"


def test_rows_are_counted_as_a_spreadsheet_does(tmp_path):
    rows = 'a,b,y\n1,"two\nlines",0\n\n1,"x\n\ny",0\nbad,z,1\n'
    assert refused(table, tmp_path, rows) == ["row 5, column 'a': 'bad' is not a number"]


def test_frames_are_read_as_files_are(tmp_path):
    ages, colours = [30, 40.5, None], ["red", None, "blue"]
    frame = pd.DataFrame(
        {"age": ages, 5: [True, False, True], "colour": colours, "y": [1.0, np.nan, 0.0]}
    )
    assert refused(of_frame, frame)[:2] == [
        "row 1, column 'colour': blank; write missing: mean, median or drop",
        "row 1, column 'y': a sample without a label; write missing: drop to leave such rows out",
    ]
    kept = of_frame(frame.assign(age=[1, 2, 3]), missing="drop")
    assert kept.features == ("age", "5", "colour=blue", "colour=red")
    assert kept.x.tolist() == [[1, 1, 0, 1], [3, 1, 1, 0]]
    assert kept.y.tolist() == [1, 0] and kept.y.dtype.kind == "i"
    truths = of_frame(frame.assign(y=[True, False, True]), missing="mean")
    assert truths.y.tolist() == ["True", "False", "True"]
    path = tmp_path / "t.parquet"
    frame.assign(y=["a", "b", "a"], client=[20, 10, 20]).rename(columns=str).to_parquet(path)
    got = parquet(str(path), missing="mean")
    assert got.y.tolist() == ["a", "b", "a"] and got.client.tolist() == [20, 10, 20]
    assert np.isnan(got.x[2, 0])
    pd.DataFrame({"image": [[1, 2], [3, 4]], "y": [0, 1]}).to_parquet(path)
    with pytest.raises(DataError, match=r"t\.parquet: column 'image': holds lists"):
        parquet(str(path))
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"t\.parquet: not a sound parquet file"):
        parquet(str(path))


def test_no_rows_are_no_samples(tmp_path):
    assert refused(of_frame, pd.DataFrame({"a": [], "y": []})) == ["no samples"]
    assert refused(table, tmp_path, "a,y\n,0\n1,\n", missing="drop") == ["every sample has a blank"]

"""Marks on the page stand where their numbers are, hollow where nothing is clear."""

import re

import pytest

from fedsim.report.figures.rows import rows_on_page
from fedsim.report.pictures.rows import Mark, Row, Rows, Span, span_of


def test_marks_stand_where_their_numbers_are_in_percent_of_any_width():
    mark = Mark(0.5, 0.25, 0.75, [0.25, 0.75], True, "0.500", "half")
    shown = rows_on_page(Rows([Row("m_a(b=1)", "", 2, [mark])], Span(0, 1), "score"))
    (row,) = shown.rows
    assert row.texts == ["0.500"] and row.look == "s2" and row.title == "half"
    assert 'x1="25.75%" y1="50.00%" x2="74.25%" y2="50.00%"' in shown.drawn
    assert '<circle cx="50.00%" cy="50.00%" r="5"/>' in shown.drawn
    assert shown.drawn.count('r="2"/>') == 2
    assert re.findall(r">([\d.]+)<", shown.foot) == ["0", "0.2", "0.4", "0.6", "0.8", "1"]


@pytest.mark.parametrize("hollow", range(4))
def test_marks_of_every_shape_are_hollow_where_nothing_is_clear(hollow):
    marks = [Mark(0.5, None, None, [], number != hollow, "", "") for number in range(4)]
    shown = rows_on_page(Rows([Row("m", "", 2, marks)], Span(0, 1), "score"))
    faces = re.findall(r'<g fill="var\(--(\w+)\)"', shown.drawn)
    assert faces == ["paper" if number == hollow else "s2" for number in range(4)]


def test_an_interval_that_leaves_a_cut_axis_has_an_arrow_at_its_end():
    mark = Mark(0.5, 0.4, 0.6, [], True, "0.500", "")
    rows = [Row(name, "", 0, [mark]) for name in "abc"]
    rows.append(Row("wide", "", 3, [mark._replace(low=-9.0)]))
    span = span_of(rows)
    assert span.low > 0.3
    shown = rows_on_page(Rows(rows, span, "score"))
    assert re.findall(r'<svg x="([\d.]+)%" y="([\d.]+)%">', shown.drawn) == [("1.50", "87.50")]
    ((_, text),) = shown.keys
    assert text == "axis cut: wide beyond it"

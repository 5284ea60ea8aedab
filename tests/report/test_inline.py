"""Figures as pieces of a page: text is text, colours are the page's, and nothing else is there."""

import re

import numpy as np

from fedsim.report.figures.drawing import COLOURS, GREY, style
from fedsim.report.figures.inline import PAGE_STYLE, inline, tag, without_style_sheet
from fedsim.report.figures.on_page import Line, Lower, lines_on_page, page_axes

HOSTILE = "</svg><script>a&b"


def picture(height=1.0):
    """A line with a band, a title and a level, in axes from 0 to 10 and from 0 to 1."""
    with style(PAGE_STYLE):
        axes = page_axes((154, 156), bottom=42, left=40)
        (line,) = axes.plot([0, 5, 10], [0, height, 0], color=COLOURS[2])
        tag(line, "series s2", HOSTILE, title=f"{HOSTILE}: 1")
        axes.axhline(0.5, color=GREY, ls="--")
        axes.text(5, 0.25, f"$x$ {HOSTILE}", color=COLOURS[1], ha="center")
        axes.set(xlim=(0, 10), ylim=(0, 1))
        return inline(axes.figure, HOSTILE)


def test_points_are_where_their_numbers_are_and_what_is_beyond_is_cut():
    assert 'd="M40 114l50-100 50 100"' in picture()
    high = re.search(r'</title><path d="([^"]*)"', picture(height=2.0))[1]
    assert high == "M40 114l25.2-101M114.8 13l25.2 101"


def test_text_is_escaped_text_at_its_anchor():
    drawn = str(picture())
    assert 'text-anchor="middle" class="s1">$x$ &lt;/svg&gt;&lt;script&gt;a&amp;b</text>' in drawn
    assert "<title>&lt;/svg&gt;&lt;script&gt;a&amp;b: 1</title>" in drawn
    assert drawn.count("<script") == 0 and drawn.count("</svg>") == 1


def test_colours_are_those_of_the_page_or_without_it_their_own():
    drawn = picture()
    assert 'stroke="var(--s2)"' in drawn and 'stroke="var(--soft)"' in drawn
    assert not re.search(r' (id|style)="|url\(', drawn)
    alone = without_style_sheet(drawn)
    assert f'stroke="{COLOURS[2].lower()}"' in alone and "var(" not in alone


def test_a_chart_has_its_numbers_with_it():
    x = np.array([0.0, 1.0, 2.0])
    line = Line("it's", 0, x, np.array([0.1, 0.2, 1 / 3]), x / 10, x / 5)
    drawn = lines_on_page([line], Lower("round", "rounds", whole=True), "score", "a < b")
    assert "<figcaption>a &lt; b</figcaption>" in drawn and "series band s0" in drawn
    numbers = re.search(r"data-numbers='([^']*)'", drawn)[1]
    assert '"y":[0.1,0.2,0.33333]' in numbers and '"name":"it\\u0027s"' in numbers

"""Spans of time that overlap count once, and only the last ones are remembered."""

import pytest

from fedsim.engine.clock import REMEMBERED, Spans


@pytest.mark.long
@pytest.mark.optimised
def test_what_threads_compile_at_the_same_time_counts_once_and_is_remembered_within_a_bound():
    spans = Spans()
    for begin, end, total in (
        *((1, 2, 1), (0, 3, 3), (2.5, 4, 4)),
        *((6, 7, 5), (6.2, 6.8, 5), (5, 9, 8)),
    ):
        spans.add(begin, end)
        assert spans.total == total

    spans = Spans()
    for second in range(5 * REMEMBERED):
        spans.add(second, second + 0.5)
    assert len(spans.recent) == REMEMBERED
    assert spans.total == 5 * REMEMBERED * 0.5

"""The rounds in which rules are tried."""

from definitions.cohort import NONE, Cohort

FIRST = Cohort()
TWICE = Cohort(count=(1, 1, 1, 2, 1, 1))
"""The fourth client was drawn twice."""

SECOND = Cohort(rows=([2, 2], NONE, [4, 4], [2, 2], [0, -1], NONE), number=2)
LATER = SECOND._replace(number=4)
WITHOUT_LAST = Cohort(rows=([1, 0], [3, 4], NONE, [2, 2], [0, -1], NONE))
WITHOUT_PIVOT = Cohort(rows=([1, 0], [3, 4], NONE, NONE, [0, -1], [10, -6]))

ALIKE = Cohort(rows=([1, 0], [1, 0.5], NONE, [1, 0], [1, -0.5], [1, 0]))
ACROSS = Cohort(rows=([0, 0], [4, 4], NONE, [0, 2], [3, -1], NONE))
ONE_SIDED = Cohort(rows=([-4, 0], [0, 1], NONE, [0, 2], [5, 6], [5.5, 7]))
SEVEN = Cohort(rows=([0, 7], [1, 5], [2, 3], NONE, [4, 2], [7, 1], [8, 0], [90, -90]))
CLUSTERED = Cohort(rows=([1, 0], [2, 0], NONE, [3, 0], [0, -9], NONE))

SYBILS = Cohort(rows=([1, 0], [0.9, 0.1], [-1, 0]))
OPPOSED = Cohort(rows=([1, 0], [0.2, 1], NONE, [1, 1], [-1, 2], NONE))
CONVINCED = Cohort(rows=([0, 1], [1, 0], NONE, [1, 1], [0, 2], NONE))

STILL = (
    Cohort(rows=([1, 0], [3, 4], [4, 4], [2, 2], [0, -1], [10, -6])),
    Cohort(rows=([101, 0], [113, 4], [94, 4], [107, 2], [95, -1], [110, -6])),
    Cohort(rows=([101, 1], [113, 5.1], [94, 4.9], [107, 3], [95, -0.05], [110, 4])),
)
"""The model stands still. First come changes in the one coordinate, then in the other."""

CURVED = (
    Cohort(params=(0, 0), rows=([1, 0], [3, 4], [4, 4], [2, 2], [0, -1], [10, -6])),
    Cohort(params=(1, 0), rows=([-1, 0], [1, 4], [2, 4], [0, 2], [-2, -1], [8, -6])),
    Cohort(
        params=(3, 0),
        rows=([-4.9, 0], [-3.11, 4], [-1.91, 4], [-4.1, 2], [-5.905, -1], [12.05, -6]),
    ),
)
"""The model moves by (1, 0) and (2, 0), and updates by twice as much against it.

In the end all are off by 0.11 at most, but the last by 8.05, so that it moves as far as the others.
"""

"""Times until an event that some samples do not reach: Cox regression, C-index, survival curves."""

ORDER = 96
KINDS = ("cox", "discrete_cox", "concordance")
COLUMNS = "columns"
ENDED = "curves"
PAGE = "page"
FIGURES = "figures"
ENDS = {"c_index": (0.0, 1.0)}
WORDS = {"c": "C"}
REQUIRES = ("metrics",)

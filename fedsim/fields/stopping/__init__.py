"""Runs that end early: no progress, a target that is reached, or a budget that is spent."""

ORDER = 97
KEYS = "keys"
FIELD = "field"
COLUMNS = "columns"
ENDED = "ended"
FINDINGS = "findings"
COMPARED = "spent"
PAGE = "page"
FIGURES = "figures"
SETTING = "setting"

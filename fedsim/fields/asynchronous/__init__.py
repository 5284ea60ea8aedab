"""Servers that do not wait for a cohort: clients train all the time."""

ORDER = 30
KINDS = ("timetables",)
FIELD = "field"
COLUMNS = "columns"
PAGE = "page"
REQUIRES = ()

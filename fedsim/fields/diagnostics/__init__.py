"""How large updates are, how far apart, and how far the aggregate lies from honest ones."""

ORDER = 90
KEYS = "keys"
FIELD = "field"
COLUMNS = "columns"
REQUIRES = ()

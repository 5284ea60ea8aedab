"""Clients as unequal machines: their speeds and links, who is there, who is late or leaves."""

ORDER = 5
KINDS = ("speeds", "links", "availability", "traces")
KEYS = "keys"
FIELD = "field"
COLUMNS = "columns"
SETTING = "setting"
PAGE = "page"
FIGURES = "figures"
REQUIRES = ()

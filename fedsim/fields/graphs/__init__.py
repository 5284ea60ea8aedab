"""Clients without a server: nodes of a graph that mix what they hear."""

ORDER = 10
KINDS = ("topology", "clients")
KEYS = "keys"
METHODS = "methods"
FIELD = "field"
COLUMNS = "columns"
SETTING = "setting"
PARTITION = "partition"
MAP = "page"
NAMES = {"section": ("mixing",), "topology": ("spectral_gap",)}
REQUIRES = ()

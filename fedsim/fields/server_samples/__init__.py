"""Samples that the server holds, and rules that read them."""

ORDER = 85
KINDS = ("trust", "zeno")
KEYS = "keys"
NEEDS = ("reference", "server_loss")
FIELD = "field"
GRID = "grid"
REQUIRES = ()

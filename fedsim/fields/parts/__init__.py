"""Clients that train and send a part of the model, by width or by rank."""

ORDER = 50
KEYS = "keys"
METHODS = "methods"
FIELD = "field"
COLUMNS = "columns"
REQUIRES = ()

"""An exponential moving average of the server's model, scored beside it."""

ORDER = 98
KEYS = "keys"
FIELD = "field"

"""The codec of the model that the server sends out."""

ORDER = 70
KEYS = "keys"
FIELD = "field"
SETTING = "setting"
REQUIRES = ()

"""Attacks on the samples of malicious clients."""

ORDER = 75
KINDS = ("labels", "backdoors")
KEYS = "keys"
SCORES = ("attack_success",)
FIELD = "field"
COLUMNS = "columns"
SETTING = "setting"
REQUIRES = ()

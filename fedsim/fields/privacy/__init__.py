"""Differential privacy of clients and of samples: noise, and how much of a budget it spends."""

ORDER = 80
KINDS = ("mechanisms", "local_gaussian", "local_laplace")
KEYS = "keys"
FIELD = "field"
COLUMNS = "columns"
SETTING = "setting"
MARK = "mark"
FORECAST = "forecast"
RECORDED = "accountants"
ENDED = "audit"
FINDINGS = "audit_lines"
GOES_ON = "going_on"
NAMES = {"accounting": ("epsilon", "noise_multiplier")}
TITLES = {
    "privacy": ("privacy", "privacy {}"),
    "privacy.clip": ("bound on updates", "updates up to {}"),
    "privacy.epsilon": ("ε", "ε = {}"),
    "privacy.noise_multiplier": ("noise multiplier", "noise multiplier {}"),
    "privacy.mechanism": ("mechanism", "mechanism {}"),
}
REQUIRES = ()

"""Scores of outputs besides accuracy and loss: AUC, F1, calibration, quantile errors ..."""

import math

ORDER = 95
KINDS = ("ranking", "decisions", "probabilities", "numbers")
KEYS = "keys"
FIELD = "field"
ENDED = "ended"
COLUMNS = "columns"
PAGE = "page"
FIGURES = "figures"
NAMES = {"measuring": ("measure",), "metric": ("metric",)}
_ERROR = (math.inf, 0.0)
ENDS = {
    "auc": (0.0, 1.0),
    "average_precision": (0.0, 1.0),
    "f1": (0.0, 1.0),
    "precision": (0.0, 1.0),
    "recall": (0.0, 1.0),
    "specificity": (0.0, 1.0),
    "balanced_accuracy": (0.0, 1.0),
    "top_k": (0.0, 1.0),
    "matthews": (-1.0, 1.0),
    "kappa": (-1.0, 1.0),
    "brier": (2.0, 0.0),
    "ece": (1.0, 0.0),
    "log_loss": _ERROR,
    "bits_per_token": _ERROR,
    "rmse": _ERROR,
    "pinball": _ERROR,
}
WORDS = {"auc": "AUC", "f1": "F1", "ece": "ECE", "rmse": "RMSE"}
REQUIRES = ()

"""The study of Rossi, Berk and Lenihan (1980) among four clients: `load_rossi` of lifelines."""

from pathlib import Path

import numpy as np
import pandas as pd

ROSSI = pd.read_csv(Path(__file__).parent / "rossi.csv")
NAMES = ["fin", "age", "race", "wexp", "mar", "paro", "prio"]
FEATURES = ROSSI[NAMES].to_numpy(float)
SCALE = FEATURES.std(axis=0)
X = (FEATURES - FEATURES.mean(axis=0)) / SCALE
Y = ROSSI[["week", "arrest"]].to_numpy()
OWNERS = np.arange(len(Y)) % 4


def scenario(loss, rounds=2, **sections):
    plain = {
        "name": "survival",
        "rounds": rounds,
        "data": {"test": 0},
        "model": {"kind": "linear", "loss": loss},
        "client": {"batch": "full", "lr": 2.0, "epochs": 1},
        "evaluate": {"every": rounds, "metrics": ["c_index"]},
        "numerics": {"dtype": "float64"},
    }
    return plain | sections

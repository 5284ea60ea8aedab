"""Rows of `summary.csv` by hand: a method that is better than the baseline, and one that is not."""

BASE = [0.50, 0.52, 0.48, 0.51, 0.49, 0.50, 0.53]
BETTER = [b + d for b, d in zip(BASE, [0.1, 0.12, 0.11, 0.1, 0.13, 0.12, 0.11], strict=True)]
LEVEL = [b + d for b, d in zip(BASE, [0.01, -0.01, 0.02, -0.02, 0.0, 0.01, -0.01], strict=True)]


def rows_of(scores: dict[str, list], metric="test_accuracy", **more) -> list[dict]:
    """The rows of methods with these scores, by seed."""
    rows = []
    for method, values in scores.items():
        for seed, value in enumerate(values):
            row = {"method": method, "seed": seed, "metric": metric, "final": value, "best": 9.0}
            rows.append({**row, "diverged": 0, **more})
    return rows

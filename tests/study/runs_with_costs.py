"""Runs of four methods by hand, that differ in bytes and virtual seconds, and their tables."""

from itertools import product

from fedsim.study.conclusions import conclusions

SCORES = {"dense": 0.9, "cast": 0.899, "top_k": 0.7, "bad": 0.6}
UP = {"dense": 400, "cast": 200, "top_k": 10, "bad": 300}
CLOCK = {"dense": 8.0, "cast": 2.0, "top_k": 1.0, "bad": 2.0}  # seconds of a round


def summary(seeds: int = 6) -> list[dict]:
    """Runs of four methods; `top_k` reaches the target under half of the seeds, `bad` never."""
    rows = []
    for method, seed in product(SCORES, range(seeds)):
        arrives = method in ("dense", "cast") or (method == "top_k" and seed % 2)
        score = SCORES[method] + 0.004 * (-1) ** (seed + len(method))
        row = {"method": method, "seed": seed, "metric": "test_accuracy", "diverged": 0}
        row |= dict.fromkeys(("final", "best", "mean_last_k"), score)
        row["rounds_to_target"] = 2 if arrives else None
        row["bytes_to_target"] = 1000.0 * UP[method] + seed if arrives else None
        rows.append(row)
    return rows


def close(runs: list[dict]) -> list[dict]:
    """Runs with a tenth of their noise."""
    return [{**row, "final": 0.9 * SCORES[row["method"]] + 0.1 * row["final"]} for row in runs]


def rounds(seeds: int = 6) -> list[dict]:
    """Ten clients per round, three rounds; dense models down."""
    rows = []
    for method, seed, number in product(SCORES, range(seeds), range(4)):
        row = {
            "method": method,
            "seed": seed,
            "round": number,
            "bytes_up": 10 * number * UP[method],
            "bytes_down": 4000 * number,
            "clients_sampled": 10 if number else 0,
            "virtual_seconds": float(number),
            "test_loss": 1.0,
            "test_accuracy": SCORES[method] * number / 3,
        }
        rows.append(row)
    return rows


def clocked(seeds: int = 6) -> list[dict]:
    """`dense` takes longest; under seed 0 everything takes twice as long."""
    rows = rounds(seeds)
    for row in rows:
        row["virtual_seconds"] = row["round"] * CLOCK[row["method"]]
        if row["seed"] == 0:
            row["virtual_seconds"] *= 2
    return rows


def aimed(seeds: int = 6) -> list[dict]:
    rows = summary(seeds)
    for row in rows:
        end = 3 * CLOCK[row["method"]]
        row["virtual_seconds_to_target"] = end if row["bytes_to_target"] else None
    return rows


def concluded(runs, courses, baseline="dense") -> dict[str, list[dict]]:
    """All tables of a comparison with these runs."""
    follow = conclusions(runs, [], baseline, "final", [], courses)
    return {**follow, "summary": runs, "rounds": courses}

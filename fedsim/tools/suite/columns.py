"""The columns of the report's tables, in their order; `files.yaml` says what they mean."""

TABLES = {
    "scores.csv": (
        "task", "method", "baseline", "metric", "score", "seeds", "mean", "sd",
        "difference", "ci_low", "ci_high", "p_value", "p_adjusted", "lost", "note",
    ),
    "pairs.csv": (
        "task", "method", "other", "seeds", "difference", "ci_low", "ci_high",
        "p_value", "p_adjusted", "outcome",
    ),
    "overall.csv": (
        "method", "tasks", "seeds", "mean", "iqm", "iqm_low", "iqm_high",
        "mean_rank", "rank_low", "rank_high", "worst_task", "worst_mean", "note",
    ),
    "overall_pairs.csv": (
        "method", "other", "seeds", "difference", "ci_low", "ci_high",
        "p_value", "p_adjusted", "outcome", "tasks", "wins", "open", "losses",
    ),
    "budget.csv": ("task", "method", "metric", "trials", "expected"),
    "costs.csv": (
        "task", "method", "trials", "tuning_steps", "local_steps",
        "bytes_up", "bytes_down", "virtual_seconds",
    ),
}  # fmt: skip

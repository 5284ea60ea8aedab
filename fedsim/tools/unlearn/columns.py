"""The columns of the tables of `fedsim fork --unlearn`."""

UNLEARNING = (
    "seed", "how", "first_round", "from_round", "rounds", "gradient_steps",
    "test_loss", "test_accuracy", "test_perplexity", "test_r2", "test_mae",
    "forgotten_loss", "forgotten_accuracy", "forgotten_perplexity", "forgotten_r2",
    "forgotten_mae",
    "attack_auc", "distance", "relative_distance", "reason",
)  # fmt: skip
DIFFERENCES = (
    "how", "column", "seeds", "mean", "mean_retrain", "difference", "ci_low", "ci_high",
)  # fmt: skip
TABLES = {"unlearning.csv": UNLEARNING, "unlearning_differences.csv": DIFFERENCES}

"""`--log-to`: the rows of a run go to TensorBoard, wandb or MLflow as well.

A tracker has one run for every method, variation and seed, named `<label>.<seed>`: the resolved
scenario as its configuration, every evaluated round's numbers at that step, and the numbers of its
summary as `summary/<column>`. All of it is read from the run's journal: live, row by row, or all at
once where a run ended earlier or in another process. So a run that resumes is logged from its first
row again, and what a tracker has already is replaced (TensorBoard, wandb offline) or skipped
(MLflow, wandb online).
"""

LOG = "log"
BESIDE = (
    "tensorboard",
    "wandb",
    "mlflow.db",
    "mlflow.db-journal",
    "mlflow.db-wal",
    "mlflow.db-shm",
)
REQUIRES = ()

"""The columns of `bench.csv`, in their order; `files.yaml` says what they mean."""

TABLES = {
    "bench.csv": (
        "workload", "how", "version", "seconds", "least", "most", "times_lanes",
        "steps_per_second", "gflops", "share_of_peak", "peak_gflops", "lane_efficiency",
        "compile_seconds", "plan_seconds", "evaluation_seconds", "peak_bytes",
        "final_accuracy",
    ),
}  # fmt: skip

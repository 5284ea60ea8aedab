"""The report: what a run says, as frames and as files. Its modules are imported one by one: some of them need no JAX."""

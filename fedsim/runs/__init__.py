"""Run directories: what is executed, compared, verified, replayed and exported."""

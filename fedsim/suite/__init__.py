"""A suite: many comparisons under one protocol."""

"""Studies: designs of comparisons, and the numbers that runs and partitions come to."""

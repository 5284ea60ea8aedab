"""The report: from tables and records to pages, figures and paper tables, as bytes.

It knows no path and reads no run. Some names mean the same everywhere:

- `summary` and `runs` are rows of `summary.csv`, `compare` and `compared` of `compare.csv`,
  `tuning` of `tuning.csv`, `rounds` of `rounds.csv`. As a `DataFrame`, `rounds`, `clients` or
  `partition` is the file of that name; None where there is none.
- `record` is the content of a `run.json`, `scenario` the resolved one in it, `frames` the tables of
  a run by name, `context` what all pictures of it have in common.
- `score` is one of `SCORES`, `metric` the column of `rounds.csv` that it comes from. `spread` is
  `sd`, or `interval`: half of Student's 95 % interval of the mean. `chance` is the accuracy of
  guessing.
- `baseline` is the method that the others are compared with; None or empty for runs.
- `rank` is that of a method in the order of the result, from 0, which decides its colour.
- `over` says whether the runs have ended.
"""

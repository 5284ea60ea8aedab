"""What only some scenarios have: a folder each, which may be taken out.

A folder's `__init__` says what it adds, and imports nothing else; `fedsim.installed` reads it:

- `ORDER`: fields are asked in this order, and those of the same number by name.
- `KINDS`: modules that register its kinds; `shipped.json` beside them describes these.
- `FIELD`: the module whose `FIELD` is a `fedsim.assemble.field.Field`.
- `REQUIRES`: other fields that it imports.
- `SETTING`: the module whose `after_model`, `after_client` and `after_server` (all optional) take a
  scenario's plain values, and return steps of the setting of a page.
- `MARK`: the module whose `mark(columns, scenario)` is a line in all that shows a run, or empty.
- `FORECAST`: the module whose `lines(expected)` are printed by `fedsim check`, by name.
- `ENDED`: the module whose `tables(run, spec)` are tables of a run that has ended, by name, and
  whose `columns(tables, scenario)` go to its row of `summary.csv`.
- `FINDINGS`: the module whose `findings(summary, words)` are sentences below a result.
- `TITLES`: path -> name of the axis, and a value of it, as in `fedsim.study.words`.
- `GOES_ON`: the module whose `forked(before, after)` and `resumed(fields, present)` say why a run
  cannot go on as another one.
- All that tools may add (`fedsim.tools`): `TABLES`, `PAGE`, `NAMES` ...

A `synonyms.csv` in the folder has further rows of that of `fedsim`.
"""

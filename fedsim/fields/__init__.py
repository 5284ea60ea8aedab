"""What only some scenarios have: a folder each, which may be taken out.

A folder's `__init__` says what it adds, and imports nothing else; `fedsim.installed` reads it:

- `ORDER`: fields are asked in this order, and those of the same number by name.
- `KINDS`: modules that register its kinds; `shipped.json` beside them describes these.
- `FIELD`: the module whose `FIELD` is a `fedsim.field.Field`.
- `REQUIRES`: other fields that it imports.
- `FIGURES`: the module whose `figures(frames, context)` yields names of figures, and their pages.
- `SETTING`: the module whose `steps(scenario)` and `conditions(scenario)` are steps of a setting,
  before and behind the cohort; it may have one of them.
- All that tools may add (`fedsim.tools`): `TABLES`, `PAGE`, `NAMES` ...

A `synonyms.csv` in the folder has further rows of that of `fedsim`.
"""

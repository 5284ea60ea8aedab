"""What only some scenarios have: a folder each, which may be taken out.

A folder's `__init__` says what it adds, and imports nothing else; `fedsim.installed` reads it:

- `ORDER`: fields are asked in this order, and those of the same number by name.
- `KINDS`: modules that register its kinds; `shipped.json` beside them describes these.
- `METRICS`: of those of `evaluate.metric`, the ones that only it measures.
- `NEEDS`: of what rules need (`Rule.needs`), what only it makes.
- `GRID`: the module whose `as_read(document, cells)` changes how cells of a comparison are read.
- `FIELD`: the module whose `FIELD` is a `fedsim.field.Field`.
- `REQUIRES`: other fields that it imports.
- `FIGURES`: the module whose `figures(frames, context)` yields names of figures, and their pages.
- `SETTING`: the module whose functions of a scenario are steps of a page's setting: `attacks`
  behind the data, `steps` and `conditions` before and behind the cohort.
- All that tools may add (`fedsim.tools`): `TABLES`, `PAGE`, `NAMES` ...

A `synonyms.csv` in the folder has further rows of that of `fedsim`.
"""

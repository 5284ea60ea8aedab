"""What only some scenarios have: a folder each, which may be taken out.

A folder's `__init__` says what it adds, and imports nothing else; `fedsim.installed` reads it:

- `ORDER`: fields are asked in this order, and those of the same number by name.
- `REQUIRES`: other fields that it imports.

What its kinds and its keys are:

- `KINDS`: modules that register its kinds; `shipped.json` beside them describes these.
- `KEYS`: the module whose `KEYS` are `fedsim.scenario.added.AddedKeys`. It may also have
  `idle(spec)`, sections that say nothing beside its keys; `settles(values)`, keys of rules where
  nobody says otherwise; `FILES`, sections that name a file; `WITHOUT_MESSAGES`, what baselines set.
- `METHODS`: the module that registers its methods.
- `SCORES`: of those of `evaluate.metric`, the ones that only it measures.
- `ENDS`: kind of a metric -> its worst and its best value; `WORDS`: part of its name -> in words.
- `NETWORKS`: library -> the module whose `wrapped(module, make, example)` makes a `Model` of one of
  its modules, as those of `fedsim.models.modules`.
- `DATA_SETS`: library -> the module whose `samples(data_set, **columns)` are those of `data=`;
  `columns` are `data.target` and `data.client`, where they are written.
- `NEEDS`: of what rules need (`Rule.needs`), what only it makes.

How a scenario is checked, built and played:

- `FIELD`: the module whose `FIELD` is a `fedsim.field.Field`.
- `GRID`: the module whose `as_read(document, cells)` changes how cells of a comparison are read.
- `GOES_ON`: the module whose `forked(before, after)` and `resumed(fields, present)` say why a run
  cannot go on as another one.

What becomes of a run:

- `COLUMNS`: the module whose `COLUMNS` are `fedsim.disk.tables.Added`; `files.yaml` beside it
  explains them.
- `RESULT`: the module whose `METHODS`, name -> (result, ...) -> anything, are methods of results.
- `EXPORTS`: format of `fedsim export` -> the module whose `exported(path, name)` are a file's
  bytes; `name` is that of `--table`.
- `WEIGHTS`: ending of a file -> the module whose `tensors(content)` are those that `model.weights`
  names.
- `ENDED`: the module whose `tables(run, spec)` are tables of a run that has ended, by name, and
  whose `columns(tables, scenario)` go to its row of `summary.csv`; it may have one of them.
- `RECORDED`: the module whose `entries(scenario)` are entries of `run.json`, whose
  `missing(scenario)` are lines about what `fedsim verify` needs and is not here, and whose
  `checks(experiment, rows)` yields checks of a run's last row: name, problems, result.
- `COMPARED`: the module whose `columns(compared, summary, rounds)` go to the rows of
  `compare.csv`.
- `FINDINGS`: the module whose `findings(summary, words, compared)` are sentences about runs, or
  about a comparison: `compared` are rows of `compare.csv` where it asks, without the baseline's.
- `MARK`: the module whose `mark(columns, scenario)` is a line in all that shows a run, or empty.
- `FORECAST`: the module whose `lines(expected)` are printed by `fedsim check`, by name.
- `PARTITION`: the module whose `lines(scenario, seed, clients)` are printed by
  `fedsim data partition`.
- `TITLES`: path -> name of the axis, and a value of it, as in `fedsim.study.words`.
- `SETTING`: the module with steps of a page's setting, as functions of a scenario's plain values:
  `after_data`, `after_model`, `after_cohort`, `after_client`, `before_wire`, `after_server`.
- `MAP`: the module whose `draw(scenario, partition)` is a picture of the clients, or None.
- `FIGURES`: the module whose `figures(frames, context)` yields names of figures, and their pages.
- All that tools may add (`fedsim.tools`): `PAGE`, `NAMES`, `TABLES` ...

A `synonyms.csv` in the folder has further rows of that of `fedsim`, a `guide.yaml` further lines of
the guide to rules.
"""

"""What is done with runs, or beside them: a folder each, which may be taken out.

A folder's `__init__` says what it adds, and imports nothing else; `fedsim.installed` reads it:

- `COMMANDS`: heading of `fedsim --help` -> command -> the module that has `COMMAND_command`.
- `RESUMABLE`: those of its commands that write what `--resume` continues.
- `NAMES`: module -> the public names of `fedsim` that it defines.
- `EXTENDS`: a command of another -> the module whose `extend(command)` adds options to it.
- `TABLES`: the module whose `TABLES` has file -> columns; `files.yaml` beside it explains them.
- `PAGE`: the module whose `section(sources, context)` is a section of the page of runs, or None.
- `REQUIRES`: other tools that it imports.

A `synonyms.csv` in the folder has further rows of that of `fedsim`.
"""

"""What is done with runs, or beside them: a folder each, which may be taken out.

A folder's `__init__` says what it adds, and imports nothing else; `fedsim.installed` reads it:

- `COMMANDS`: heading of `fedsim --help` -> command -> the module that has `COMMAND_command`.
- `MODES`: words, such as `fork --unlearn`, that ask another command for one with options of its
  own -> where that is, `module:function`, also in place of a mode of the same words.
- `FORMER`: words of earlier versions -> what they are now.
- `RESUMABLE`: those of its commands and modes that write what `--resume` continues.
- `NAMES`: module -> the public names of `fedsim` that it defines.
- `LOG`: the module whose `opener(log_to, out)` opens what gets the rows of `--log-to`.
- `BESIDE`: files and folders in run directories that are no part of a run.
- `TABLES`: the module whose `TABLES` has file -> columns; `files.yaml` beside it explains them.
- `PAGES`: the module with `pages(table)`, name -> sections of pages of docs/.
- `PAGE`: the module whose `section(sources, context)` is a section of the page of runs, or None.
- `REQUIRES`: other tools that it imports.

A `synonyms.csv` in the folder has further rows of that of `fedsim`.
"""

"""What mkdocs calls while it builds: the pages are made in memory, none is left in the source."""

from content import content
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the pages of docs/ with what the site shows."""
    for file in files.documentation_pages():
        files.remove(file)
    shown = content()
    for place, text in shown.pages.items():
        files.append(File.generated(config, place, content=text))
    for place, path in shown.files.items():
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files

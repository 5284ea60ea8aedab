"""What mkdocs calls while it builds: the pages are made in memory, none is left in the source."""

from content import content
from kind_pages import places
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from navigation import OUTSIDE, navigation
from prose import with_formulas


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the pages of docs/ with what the site shows."""
    for file in files.documentation_pages():
        files.remove(file)
    shown = content()
    for place, text in shown.pages.items():
        files.append(File.generated(config, place, content=text))
    for place, path in shown.files.items():
        files.append(File.generated(config, place, abs_src_path=str(path)))
    for place, made in shown.made.items():
        files.append(File.generated(config, place, content=made))
    config.nav = navigation(shown.pages)
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Set the formulas of a page of docs/; other pages have none, or have set ones."""
    del config, files
    place = page.file.src_uri
    is_of_docs = not place.startswith(OUTSIDE) and place not in places().values()
    return with_formulas(html) if is_of_docs else html

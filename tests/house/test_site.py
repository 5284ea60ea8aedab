"""The site: every page builds, every kind has one with its formulas, and no link is dead."""

import re
import subprocess
import sys

import pytest
from conftest import if_all_installed, own_kinds_of

from fedsim.kinds import FAMILIES
from fedsim.scenario.catalogue import catalogue
from fedsim.scenario.expected import plural_of


def printed(root, code: str, *arguments: str) -> str:
    """What code prints that imports the site's modules."""
    words = [sys.executable, "-c", code, *arguments]
    options = {"cwd": root / "docs/site", "capture_output": True, "text": True}
    return subprocess.run(words, check=True, **options).stdout


def test_formulas_become_mathml_and_words_stay(root):
    code = "import sys, mathematics; print(*map(mathematics.typeset, sys.argv[1:]), sep='---')"
    text = "v ← max(ν, ‖v − x_c‖₂) for a client of 20, at √(2·samples); `lr` stays"
    prose = "needs Python ≥ 3.11; the rule mean_over_all"
    html, plain = printed(root, code, text, prose).split("---")
    bare = re.sub(r"<[^>]+>", "", html).replace("\u2060", "").strip()
    assert bare == "v←max(ν,‖v−xc‖2) for a client of 20, at 2·samples; lr stays"
    assert "<msqrt>" in html and "<msub><mi>x</mi><mi>c</mi></msub>" in html
    assert " for a client of 20" in html and "<code>lr</code>" in html
    assert plain.strip() == prose


def test_the_check_finds_dead_links_dead_anchors_and_what_is_loaded_from_elsewhere(root, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/index.html").write_text('<h1 id="there">There</h1>')
    (tmp_path / "index.html").write_text(
        '<a href="other/#there">a</a> <a href="other/#gone">b</a> <a href="none/">c</a>'
        '<a href="https://a.example/">d</a> <script src="https://b.example/x.js"></script>'
        '<source srcset="dark.svg">'
    )
    (tmp_path / "site.css").write_text("@import url(https://c.example/font.css);")
    code = "import sys, pathlib, check; print(*check.faults(pathlib.Path(sys.argv[1])), sep='\\n')"
    assert printed(root, code, str(tmp_path)).splitlines() == [
        "index.html: nothing is at none/",
        "index.html: nothing has the anchor of other/#gone",
        "index.html: loads https://b.example/x.js",
        "index.html: nothing is at dark.svg",
        "site.css: loads something from elsewhere",
    ]


def require_a_page_of_every_kind_and_an_index(site):
    """With its parameters; the index counts kinds and links to the pages of their families."""
    catalogue(None)
    index = (site / "catalogue/index.html").read_text()
    for family in FAMILIES:
        ours = own_kinds_of(family)
        for kind in ours:
            page = site / "catalogue" / plural_of(family) / kind / "index.html"
            assert f'<h1 id="{kind}"' in page.read_text(), kind
        row = re.search(rf'<a href="{plural_of(family)}/">.*?</td>\s*<td>(\d+)</td>', index)
        assert not ours or int(row[1]) == len(ours), family
    krum = (site / "catalogue/rules/krum/index.html").read_text()
    assert "<math" in krum and "Parameters" in krum and "arXiv:1703.02757" in krum
    assert 'src="../../../reports/' in krum
    assert 'href="../../../reports/rules/report.html"' in krum
    rules = (site / "catalogue/rules/index.html").read_text()
    assert '<a href="krum/"><code>krum</code></a>' in rules and "<math" in rules


def require_kept_reports_and_their_gallery(site, root):
    gallery = (site / "reports/index.html").read_text()
    for page in root.glob("reports/*/report.html"):
        if f'data-name="{page.parent.name}"' in gallery:
            assert (site / "reports" / page.parent.name / "report.html").is_file()
    assert 'data-name="rules"' in gallery and 'href="./rules/report.html"' in gallery
    assert (site / "reports/suite/report.html").is_file()
    home = (site / "index.html").read_text()
    assert 'href="reports/"' in home and 'href="reports/rules/report.html"' in home


def require_notebooks_with_what_they_showed(site, root):
    for notebook in root.glob("docs/notebooks/*.ipynb"):
        page = (site / "notebooks" / notebook.stem / "index.html").read_text()
        assert "<h1" in page and 'class="highlight' in page, notebook
        assert "<summary>Solution</summary>" in page and "&lt;details" not in page, notebook
    first = (site / "notebooks/first_run/index.html").read_text()
    assert '<div class="output">' in first and 'src="data:image/png;base64,' in first


@pytest.mark.long
@if_all_installed
def test_the_site_builds_without_faults_and_has_all_pages(root, tmp_path):
    for package in ("mkdocs", "material", "latex2mathml"):
        pytest.importorskip(package, reason="pip install -e '.[docs]'")
    command = [sys.executable, root / "docs/site", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "pages, 0 faults" in done.stdout
    require_a_page_of_every_kind_and_an_index(tmp_path)
    require_kept_reports_and_their_gallery(tmp_path, root)
    require_notebooks_with_what_they_showed(tmp_path, root)

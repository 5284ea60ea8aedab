"""`report.html` shows what is in the CSV files, and works in a real browser without a network."""

import csv
import html
import json
import re
import shutil
from functools import partial
from itertools import product

import click
import numpy as np
import pandas as pd
import pytest
from markupsafe import escape
from test_commands import invoke

import fedsim
from fedsim.cli.options import SCREENS
from fedsim.disk.tables import read_table
from fedsim.report import page
from fedsim.runs import derive, directory
from fedsim.study.words import variation_in_words

pytestmark = pytest.mark.long

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror=window.hit=1>"
SKEWED = {"kind": "dirichlet", "alpha": 0.5, "min_samples": 5}
SCENARIO = {
    "name": "page",
    "rounds": 2,
    "seeds": 3,
    "data": {"kind": "digits", "clients": 8, "partition": SKEWED},
    "client": {"lr": 0.1, "batch": 32, "epochs": 1},
    "fleet": {"malicious": 0.25},
    "wire": [{"kind": "sign_flip", "scale": 3}],
    "evaluate": {"target": 0.5},
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
NAMED = [{"method": "krum(f=2)", "label": HOSTILE}, {"method": "median", "label": "=cmd()"}]
METHODS = ["mean", "median", *NAMED]


@pytest.fixture(scope="module")
def out(tmp_path_factory, draw):
    """A comparison with all its pictures, whatever other tests do without."""
    kept, derive.derived_files = derive.derived_files, draw
    try:
        out = tmp_path_factory.mktemp("page") / "out"
        fedsim.compare(SCENARIO, METHODS, vary={"client.lr": [0.05, 0.1]}, baseline="mean", out=out)
    finally:
        derive.derived_files = kept
    return out


@pytest.fixture(scope="module")
def text(out):
    return (out / "report.html").read_text()


@pytest.fixture(scope="module")
def chromium():
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("needs a Chromium")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """A page that was opened; its messages on the console, and its requests."""

    def __init__(self, browser, file, **how):
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **how})
        self.page = self.context.new_page()
        self.messages, self.asked = [], []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(f"file://{file}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


def embedded(text):
    """The charts' numbers, each curve with its positions along the axes."""
    charts = [json.loads(numbers) for numbers in re.findall(r"data-numbers='(.*?)'", text)]
    for chart in charts:
        for curve in chart["curves"]:
            curve["x"] = chart["axes"][curve["x"]]
    return charts


def cells(text):
    """Header and rows of the first table, as they are shown."""
    table = re.search(r"<table.*?</table>", text, re.S)[0].replace("<wbr>", "")
    head = [html.unescape(cell) for cell in re.findall(r"<th [^>]*>(.*?)</th>", table)]
    rows = []
    for line in re.findall(r"<tr>(.*?)</tr>", table):
        row = [html.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", line)]
        if row:
            rows.append(row)
    return head, rows


def test_the_page_is_rebuilt_to_the_byte(out):
    before = (out / "report.html").read_bytes()
    assert page.page_of([page.Source(directory.read_record(out), derive.tables_of(out))]) == before


def test_report_says_again_what_the_comparison_said(out, tmp_path, draw, monkeypatch):
    """The sentences are made from the tables, whatever the record says."""
    headline = lambda tables, record, drawn: {"report.html": record["verdict"][0].encode()}
    monkeypatch.setattr(derive, "derived_files", headline)
    shutil.copytree(out, tmp_path / "out")
    record = directory.read_record(out)
    directory.write_record(tmp_path / "out", {**record, "verdict": ["Something else."]})
    derive.rebuild(tmp_path / "out")
    assert directory.read_record(tmp_path / "out")["verdict"] == record["verdict"]
    assert (tmp_path / "out/report.html").read_text() == record["verdict"][0]


def test_numbers_beside_the_pointer_are_means_of_rounds_csv(out, text):
    rounds = read_table(out, "rounds")
    charts = embedded(text)
    variants = list(dict.fromkeys(rounds["variant"]))
    shown = list(product(("test_accuracy", "test_loss", "train_loss"), variants))
    assert len(charts) == len(shown)
    for chart, (metric, variant) in zip(charts, shown, strict=True):
        assert {curve["name"] for curve in chart["curves"]} == set(rounds["method"])
        of_variant = rounds[rounds["variant"] == variant].dropna(subset=[metric])
        for curve in chart["curves"]:
            rows = of_variant[of_variant["method"] == curve["name"]]
            by_round = rows.assign(bytes=rows["bytes_up"] + rows["bytes_down"]).groupby("round")
            close = partial(np.testing.assert_allclose, rtol=1e-4)
            close(curve["y"], by_round[metric].mean())
            if metric == "test_accuracy":  # which is drawn along every axis
                close(curve["x"]["bytes"], by_round["bytes"].mean())
                close(curve["x"]["seconds"], by_round["virtual_seconds"].mean())
            assert curve["x"]["round"] == sorted(set(rows["round"]))


def points_of(drawn):
    """The points `[n, 2]` of a path, from the ways between them."""
    numbers = re.findall(r"-?[\d.]+", drawn)
    return np.cumsum(np.array(numbers, float).reshape(-1, 2), axis=0)


def test_pictures_are_the_same_curves(text):
    """Read back from the paths of the score, along every lower axis; all share the upright one."""
    pictures = re.findall(r'<figure class="chart".*?</figure>', text, re.S)
    scores = [chart for chart in embedded(text) if len(chart["spans"]) > 1]
    assert len(scores) == 2
    svg = r'<svg (?:hidden )?viewBox="0 0 (\d+) .*?data-along="(\w+)"(.*?)</svg>'
    series = r'class="series s\d" data-name="([^"]*)"><path d="M([^"]*)"'
    means = []
    heights = []
    for chart, figure in zip(scores, pictures, strict=False):
        drawn = re.findall(svg, figure)
        assert {key for _, key, _ in drawn} == {*chart["spans"]}
        for width, key, picture in drawn:
            low, high, *_ = chart["spans"][key]
            lines = {html.unescape(name): line for name, line in re.findall(series, picture)}
            for curve in chart["curves"]:
                x, y = points_of(lines[curve["name"]]).T
                at = 54 + (np.array(curve["x"][key]) - low) / (high - low) * (int(width) - 68)
                np.testing.assert_allclose(x, at, atol=0.2)
                means += curve["y"]
                heights += y.tolist()
    line = np.polyfit(means, heights, 1)
    np.testing.assert_allclose(np.polyval(line, means), heights, atol=0.2)


def test_the_table_is_that_of_the_csv_files(out, text):
    head, rows = cells(text)
    keys = ["method", "variant"]
    final = read_table(out, "summary").groupby(keys)["final"]
    compare = read_table(out, "compare").set_index(keys)
    labels = {variation_in_words(label): label for _, label in compare.index}
    assert len(rows) == len(METHODS) * 2
    for row in rows:
        shown = dict(zip(head, row, strict=True))
        key = (shown["method"], labels[shown["condition"]])
        assert shown["final test accuracy"] == f"{final.mean()[key]:.4f}"
        assert shown["sd"] == f"{final.std()[key]:.4f}"
        if shown["difference"] != "baseline":
            other = compare.loc[key]
            assert shown["difference"] == f"{other['difference']:+.4f}"
            assert shown["95 %"] == f"{other['ci_low']:+.4f} to {other['ci_high']:+.4f}"
            assert shown["p (Holm)"] == f"{other['p_adjusted']:.3g}"
    # the baseline is first in every variation
    assert [row[0] for row in rows[:: len(METHODS)]] == ["mean", "mean"]


def test_it_is_one_file_that_asks_for_nothing_and_says_what_was_run(out, text):
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!data:|#\w)""", text.replace(HOSTILE, ""))
    assert "default-src 'none'" in html.unescape(text) and "unsafe" not in text
    assert HOSTILE not in text and "&lt;/script&gt;" in text  # names are text
    record = directory.read_record(out)
    of_run = [record["hashes"]["scenario"], record["environment"]["jax"], "<pre"]
    steps = ["sign_flip(scale=3.0)", "rate (client.lr): 0.05", "dirichlet(alpha=0.5"]
    for words in (*of_run, *steps, *(str(escape(line)) for line in record["verdict"])):
        assert words in text, words


def test_names_are_inert_in_every_file(out):
    """A browser runs nothing, a spreadsheet computes nothing; read back, names are unchanged."""
    texts = [path for path in out.rglob("*") if path.suffix in (".csv", ".html", ".svg", ".md")]
    assert len(texts) >= 12
    for path in texts:
        text = path.read_text()
        if path.suffix == ".csv":
            for row in csv.reader(text.splitlines()):
                assert not [cell for cell in row if cell[:1] in "=+@" and cell], path
        else:
            assert "<script>window" not in text and "<img src=x" not in text, path
    assert set(read_table(out, "summary")["method"]) == {"mean", "median", HOSTILE, "=cmd()"}


def test_ten_methods_ten_seeds_two_hundred_rounds_fit(out):
    rng = np.random.default_rng(0)
    every = [[f"method{m}" for m in range(10)], range(10), range(201)]
    index = pd.MultiIndex.from_product(every, names=["method", "seed", "round"])
    rounds = pd.DataFrame(index=index).reset_index()
    for name in ("test_accuracy", "test_loss", "train_loss"):
        rounds[name] = rng.random(len(rounds))
    for name in ("bytes_up", "bytes_down", "virtual_seconds"):
        rounds[name] = rounds["round"] * 123456
    source = page.Source(directory.read_record(out), {**derive.tables_of(out), "rounds": rounds})
    assert len(page.page_of([source])) < 500_000


def test_the_page_is_opened_where_there_is_a_browser(out, tmp_path, monkeypatch):
    """Without one, a line says where the page is."""
    path = tmp_path / "page.html"
    for screen, status, is_shown in ((":0", 0, True), (":0", 1, False), ("", 0, False)):
        for name in SCREENS:
            monkeypatch.setenv(name, screen)
        launched = []
        monkeypatch.setattr(click, "launch", lambda *shown: launched.extend(shown) or status)
        done = invoke("report", out, "--out", path, "--open")
        assert done.exit_code == 0 and path.is_file()
        assert done.stderr == ("" if is_shown else f"{path}: open it in a browser\n")
        assert launched == ([str(path)] if screen else [])


SHIFT = """() => new Promise(done => { let sum = 0;
    const add = list => list.getEntries().forEach(e => sum += e.value);
    const seen = new PerformanceObserver(add);
    seen.observe({type: 'layout-shift', buffered: true});
    setTimeout(() => done(sum), 300); })"""


def test_opens_without_a_request_or_a_word(chromium, out):
    for how in ({}, {"color_scheme": "dark"}, {"locale": "de-DE"}):
        with Visit(chromium, out / "report.html", **how) as visit:
            assert visit.messages == [] and visit.asked == [f"file://{out}/report.html"]
            assert visit.page.evaluate("window.hit") is None
            assert visit.page.locator(".lead").is_visible()
            assert visit.page.locator(".statistics").count() == 1
            assert visit.page.evaluate(SHIFT) < 0.02  # nothing moves while it opens


def test_toggle_axis_numbers_and_sort_work(chromium, out):
    with Visit(chromium, out / "report.html") as visit:
        here = visit.page
        trace = here.locator('.chart .series[data-name="mean"]').first
        opacity = lambda: float(trace.evaluate("e => getComputedStyle(e).opacity"))
        toggle = here.get_by_role("button", name="mean", exact=True)
        for expected in (0.15, 1):  # what is switched off leaves a trace
            toggle.click()
            assert opacity() == pytest.approx(expected)
        first = here.locator(".chart").first
        for axis, title in (("bytes", "bytes sent, both ways"), ("round", "rounds")):
            here.locator(f"[data-axis={axis}]").click()
            shown = first.locator("svg:not([hidden])")
            assert shown.get_attribute("data-along") == axis
            assert shown.locator("text", has_text=title).is_visible()
        shown.scroll_into_view_if_needed()
        box = shown.bounding_box()
        here.mouse.move(box["x"] + box["width"] - 20, box["y"] + 60)
        curves = embedded((out / "report.html").read_text())[0]["curves"]
        last = sorted((curve["y"][-1] for curve in curves), reverse=True)
        texts = first.locator(".hint span b").all_text_contents()
        assert texts == [f"{mean:.3f}" for mean in last]
        assert first.locator(".hint > b").text_content() == f"rounds: {SCENARIO['rounds']}"
        assert first.locator(".hint .swatch").count() == len(METHODS)
        name = first.locator(".hint span", has_text="script").first
        assert HOSTILE in name.text_content()
        head = here.locator("table").first.get_by_role("button", name="final test accuracy")
        rows = "Array.from(document.querySelector('table').tBodies[0].rows)"
        column = f"{rows}.map(row => parseFloat(row.cells[2].textContent))"
        head.click()
        rising = here.evaluate(column)
        head.click()
        assert rising == sorted(rising) and here.evaluate(column) == sorted(rising, reverse=True)
        assert visit.messages == [] and here.evaluate("window.hit") is None


def test_everything_is_reached_by_the_keyboard(chromium, out):
    with Visit(chromium, out / "report.html") as visit:
        at = "(e => e.dataset.axis || e.className || e.tagName)(document.activeElement)"
        reached = set()
        for _ in range(60):
            visit.page.keyboard.press("Tab")
            reached.add(visit.page.evaluate(at))
        assert {"round", "bytes", "seconds", "wide", "BUTTON"} <= reached
        assert any("key" in name for name in reached)
        visit.page.locator("[data-axis=bytes]").focus()
        visit.page.keyboard.press("Enter")
        assert visit.page.locator('.chart svg[data-along="bytes"]').first.is_visible()


def test_fits_a_phone_and_paper_and_dark_rooms(chromium, out):
    with Visit(chromium, out / "report.html") as visit:
        here = visit.page
        light = here.evaluate("getComputedStyle(document.body).backgroundColor")
        here.emulate_media(color_scheme="dark")
        assert here.evaluate("getComputedStyle(document.body).backgroundColor") != light
        here.set_viewport_size({"width": 390, "height": 844})
        assert here.evaluate("document.documentElement.scrollWidth") <= 390
        here.emulate_media(media="print", color_scheme="light")
        assert not here.locator(".controls").first.is_visible()
        assert here.locator("table").first.is_visible()
        assert here.pdf(format="A4")[:5] == b"%PDF-"


def test_without_javascript_there_are_tables_and_still_pictures(chromium, out):
    with Visit(chromium, out / "report.html", java_script_enabled=False) as visit:
        assert visit.page.locator("table").first.is_visible()
        assert visit.page.locator(".chart svg").first.is_visible()
        assert visit.page.locator(".controls").first.is_hidden()


def test_the_first_screen_has_the_answer_and_the_table_is_whole(chromium, out):
    answer = "document.querySelectorAll('.lead, .scores .row:not(.foot)')"
    bottom = f"Math.max(...Array.from({answer}, e => e.getBoundingClientRect().bottom))"
    for width, height in ((1440, 900), (390, 844)):
        viewport = {"width": width, "height": height}
        with Visit(chromium, out / "report.html", viewport=viewport) as visit:
            assert visit.page.evaluate(bottom) <= height
            assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
            if width == 1440:
                whole = "e => e.scrollWidth <= e.clientWidth"
                assert visit.page.locator(".results").locator("..").evaluate(whole)
            else:
                cell = visit.page.locator(".results td").first
                assert cell.evaluate("e => getComputedStyle(e).position") == "sticky"
                score = visit.page.locator(".results thead th.number").first
                right = "e => e.getBoundingClientRect().right"
                assert score.text_content() == "final test accuracy"
                assert score.evaluate(right) <= width
                for link in visit.page.locator("nav a").all():
                    assert link.evaluate(right) <= width  # no entry of the menu is cut

"""Where Python shows the progress of runs: where somebody looks, and never in a log."""

import sys
import threading
from types import SimpleNamespace

import pytest
from directories import tiny

import fedsim
from fedsim.runs import displays


class Notebook:
    """IPython's shell in a kernel, and what it displayed."""

    kernel = object()

    def __init__(self):
        self.display_pub = self
        self.shown = []

    def publish(self, data, transient, update):
        self.shown.append((data["text/plain"], data["text/html"], transient["display_id"], update))


@pytest.fixture
def notebook(monkeypatch):
    shell = Notebook()
    module = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", module)
    return shell


def test_in_a_notebook_one_line_is_replaced_and_gone_at_the_end(notebook):
    now = [0.0]
    with displays.notebook_line(notebook, "<study>", lambda: now[0]) as show:
        now[0] = 1.0
        show(40, 200, "accuracy 0.9000", 12.0)
        now[0] = 1.01  # too soon for another one
        show(41, 200, "accuracy 0.9000", 12.0)
    assert [line for line, *_ in notebook.shown] == [
        "<study>: compiling",
        "<study>: 40/200 rounds, about 12 s left  accuracy 0.9000",
        "",
    ]
    assert [html for _, html, *_ in notebook.shown][1:] == [
        '<progress value="40" max="200"></progress> '
        "&lt;study&gt;: 40/200 rounds, about 12 s left  accuracy 0.9000",
        "",
    ]
    assert len({display for *_, display, _ in notebook.shown}) == 1
    assert [update for *_, update in notebook.shown] == [False, True, True]


def test_a_line_is_gone_after_an_error(notebook):
    with pytest.raises(KeyboardInterrupt), displays.notebook_line(notebook, "study"):
        raise KeyboardInterrupt
    assert notebook.shown[-1][:2] == ("", "")


@pytest.mark.long
def test_runs_report_to_the_notebook_unless_told_not_to(notebook, monkeypatch, capfd):
    monkeypatch.setattr(displays, "SECONDS_BETWEEN_UPDATES", 0.0)
    scenario = tiny(method="fedavg")
    fedsim.run(scenario, progress=True)
    assert any("6/6 rounds" in line for line, *_ in notebook.shown)
    notebook.shown.clear()
    fedsim.compare(scenario, ["fedavg"], progress=True)
    assert any("[1/1] fedavg: round 3/3" in line for line, *_ in notebook.shown)

    notebook.shown.clear()
    fedsim.compare(scenario, ["fedavg"], progress=False)
    fedsim.run(scenario)  # in a test
    assert notebook.shown == [] and capfd.readouterr() == ("", "")


def test_somebody_looks_at_a_terminal_or_a_notebook(monkeypatch):
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    assert not displays.somebody_looks()  # at a test

    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    assert displays.somebody_looks()
    in_thread = []
    thread = threading.Thread(target=lambda: in_thread.append(displays.somebody_looks()))
    thread.start()
    thread.join()
    assert in_thread == [False]

    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: False))
    assert not displays.somebody_looks()
    shell = SimpleNamespace()  # IPython in a terminal has no kernel
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert not displays.somebody_looks()
    shell.kernel = object()
    assert displays.somebody_looks()


def test_an_error_in_a_notebook_is_its_line_alone():
    with pytest.raises(fedsim.ScenarioError) as caught:
        fedsim.run(tiny(clients={}))
    (line,) = caught.value._render_traceback_()
    assert line == f"ScenarioError: {caught.value}" and "clients" in line

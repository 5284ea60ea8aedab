"""The notebooks in docs/notebooks are stored with what they show, and show it again."""

import itertools
import json
import re

import notebooks
import pytest

pytestmark = pytest.mark.optimised

NAMES = ["compare_rules", "first_run", "from_torch", "own_data", "own_method", "own_model"]
LARGEST = 200_000  # bytes of a stored notebook


def test_all_are_stored_with_what_they_show_and_with_nothing_of_a_machine(root):
    assert notebooks.names() == NAMES
    for name in NAMES:
        notebook = notebooks.stored(name)
        text = json.dumps(notebook)
        assert len(text) < LARGEST
        assert not re.search(r"/(work|home|tmp|root)/|Warning", text), name

        cells = notebooks.code_cells(notebook)
        assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
        assert any("text/plain" in text for text in notebooks.texts(notebook))
        sources = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
        for link in re.findall(r"\]\(([^)#]+)\)", "".join(itertools.chain(*sources))):
            assert (notebooks.FOLDER / link).exists(), link


def test_another_text_is_a_difference_and_another_last_digit_is_none(monkeypatch):
    changed = notebooks.stored("own_data")
    monkeypatch.setattr(notebooks, "executed", lambda name: changed)
    table = notebooks.code_cells(changed)[2]["outputs"][0]["data"]
    numbers = "".join(table["text/plain"])
    assert numbers.count("0.54") == 1
    for found, differing in (("0.55", []), ("0.64", ["own_data, code cell 3: stored"])):
        table["text/plain"] = [numbers.replace("0.54", found)]
        different = notebooks.differences("own_data")
        assert [text.partition("\n")[0] for text in different] == differing


@pytest.mark.long
@pytest.mark.parametrize("name", notebooks.executable())
def test_it_shows_the_same_when_it_is_executed_again(name):
    for module in ("ipykernel", "nbconvert", "equinox", "flax"):
        pytest.importorskip(module)
    assert notebooks.differences(name) == []

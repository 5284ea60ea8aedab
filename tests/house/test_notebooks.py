"""The notebooks in docs/notebooks are stored with what they show, and show it again."""

import copy
import json
import re

import notebooks
import pytest

NAMES = ["compare_rules", "first_run", "from_torch", "own_data", "own_method", "own_model"]
LARGEST = 200_000  # bytes of a stored notebook


def markdown(notebook) -> str:
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    return "\n".join("".join(cell["source"]) for cell in cells)


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
        for link in re.findall(r"\]\(([^)#]+)\)", markdown(notebook)):
            assert (notebooks.FOLDER / link).exists(), link


def test_each_says_why_takes_rounds_as_an_argument_and_ends_with_an_exercise_that_is_solved():
    for name in NAMES:
        notebook = notebooks.stored(name)
        text = markdown(notebook)
        assert "**Why**" in text and "## Exercise" in text, name
        code = "\n".join("".join(cell["source"]) for cell in notebooks.code_cells(notebook))
        assert "rounds=" in code and "seeds=10" in code, name

        solution = notebooks.code_cells(notebook)[-1]
        assert "solution" in solution["metadata"]["tags"] and solution["outputs"], name
        assert solution["metadata"]["jupyter"]["source_hidden"], name


def test_another_text_is_a_difference_and_another_last_digit_is_none(monkeypatch):
    name = "own_data"
    changed = copy.deepcopy(notebooks.stored(name))
    monkeypatch.setattr(notebooks, "executed", lambda name: changed)
    assert notebooks.differences(name) == []

    table = notebooks.code_cells(changed)[2]["outputs"][0]["data"]
    numbers = "".join(table["text/plain"])
    table["text/plain"] = [numbers.replace("0.54", "0.55")]
    assert numbers.count("0.54") == 1 and notebooks.differences(name) == []
    table["text/plain"] = [numbers.replace("0.54", "0.64")]
    assert notebooks.differences(name)[0].startswith("own_data, code cell 3: stored\n")


@pytest.mark.long
@pytest.mark.parametrize("name", notebooks.executable())
def test_it_shows_the_same_when_it_is_executed_again(name):
    for module in ("ipykernel", "nbconvert", "equinox", "flax"):
        pytest.importorskip(module)
    assert notebooks.differences(name) == []

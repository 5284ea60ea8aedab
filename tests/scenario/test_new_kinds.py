"""A synonym gives way to a kind of its name, once there is one."""

import pytest
from conftest import if_all_installed

from fedsim.compose import FAMILIES
from fedsim.errors import ScenarioError
from fedsim.scenario import read
from fedsim.scenario.guesses import in_words, row_of
from fedsim.synonyms import Synonym

pytestmark = if_all_installed  # it is about all kinds


def test_a_synonym_gives_way_to_a_kind_of_its_name(own_kinds):
    row = row_of("fedphp", "kind")
    assert "nearest: ditto" in in_words(row, "fedphp")
    FAMILIES["client"]["fedphp"] = FAMILIES["client"]["fedper"]
    belongs = "a client, which belongs in client"
    assert in_words(row, "fedphp") == f"fedphp is {belongs}: fedsim explain fedphp"
    with pytest.raises(ScenarioError, match=f"that is {belongs}"):
        read({"name": "x", "data": "digits", "server": ["fedphp"]})
    waits = Synonym("dp", "absent", "clip", "", once=("fedper",))
    assert in_words(waits, "dp").startswith("fedper is a method")

"""What may be taken out can be taken out: `python -m tests.deletion` says more."""

from datetime import date

import pytest

from tests.deletion import ESSENTIAL, deletable, faults


def test_a_folder_can_be_deleted():
    """One of them, another one every day."""
    folders = deletable()
    assert not list(faults(folders[date.today().toordinal() % len(folders)]))


@pytest.mark.long
@pytest.mark.parametrize("folder", deletable())
def test_every_folder_can_be_deleted(folder):
    """A share of them; `python -m tests.deletion` takes out all."""
    assert not list(faults(folder, ESSENTIAL))

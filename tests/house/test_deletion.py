"""What may be taken out can be taken out: `python -m tests.deletion` says more."""

from datetime import date

import pytest
from conftest import if_all_installed, if_whole

from tests.deletion import ESSENTIAL, deletable, faults


@if_all_installed
@pytest.mark.long
def test_all_folders_can_be_deleted_at_once():
    assert not list(faults(deletable(), ESSENTIAL))


@if_all_installed
@pytest.mark.long
def test_a_folder_can_be_deleted():
    """One of them, another one every day; `python -m tests.deletion` takes out all."""
    folders = deletable()
    assert not list(faults([folders[date.today().toordinal() % len(folders)]]))


@if_whole
@if_all_installed
@pytest.mark.long
@pytest.mark.parametrize("folder", deletable())
def test_every_folder_can_be_deleted(folder):
    assert not list(faults([folder], ESSENTIAL))

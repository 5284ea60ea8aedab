"""What may be taken out can be taken out: `python -m tests.deletion` says more."""

import pytest
from conftest import if_all_installed, if_whole

from tests.deletion import ESSENTIAL, deletable, faults


@if_all_installed
@pytest.mark.long
def test_all_folders_can_be_deleted_at_once():
    assert not list(faults(deletable(), ESSENTIAL))


@if_whole
@if_all_installed
@pytest.mark.long
@pytest.mark.parametrize("folder", deletable())
def test_every_folder_can_be_deleted(folder):
    assert not list(faults([folder], ESSENTIAL))

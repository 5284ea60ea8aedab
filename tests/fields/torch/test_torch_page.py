"""The page about torch does what it says."""

import pytest
from test_readme import block, pages

pytest.importorskip("torch")

pytestmark = pytest.mark.long


def test_the_loop_and_fedsim_have_equal_numbers(root):
    page: dict = {}
    text = pages(root)["docs/from_torch.md"]
    for name in ("torch_loop", "torch_fedsim"):
        exec(compile(block(text, name), f"docs/from_torch.md {name}", "exec"), page)
    assert len(page["result"].rounds) == 4

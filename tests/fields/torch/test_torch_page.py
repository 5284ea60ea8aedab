"""The pages about torch and Flower do what they say."""

import pytest
from test_readme import block, pages

pytest.importorskip("torch")

pytestmark = pytest.mark.long

# Page -> its blocks, the last of which has the run of fedsim.
PAGES = {
    "docs/from_torch.md": ("torch_loop", "torch_fedsim"),
    "docs/from_flower.md": ("flower_client", "flower_fedsim"),
}


@pytest.mark.parametrize("page, names", PAGES.items(), ids=PAGES)
def test_the_loop_and_fedsim_have_equal_numbers(root, page, names):
    values: dict = {}
    text = pages(root)[page]
    for name in names:
        exec(compile(block(text, name), f"{page} {name}", "exec"), values)
    assert len(values["result"].rounds) == 4

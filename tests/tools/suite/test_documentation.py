"""The page of the suite: the list of its tasks, and their sizes."""

from fedsim.tools.suite.documentation import pages


def table(header, rows):
    return "\n".join(" | ".join(row) for row in (header, *rows))


def test_every_task_is_on_the_page(root):
    names = {file.stem for file in (root / "scenarios/suite").glob("*.yaml")} - {"protocol"}
    page = "\n".join(pages(table)["suite.md"])
    for name in names:
        assert f"[`{name}`](../scenarios/suite/{name}.yaml)" in page
    assert "`compare.budget` | 4 | 16" in page

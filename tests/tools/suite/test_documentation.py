"""The pages of the suite: the list of its tasks, and on the site one for each."""

from fedsim.tools.suite.documentation import pages, site_pages


def table(header, rows):
    return "\n".join(" | ".join(row) for row in (header, *rows))


def test_every_task_has_a_page_with_its_sizes(root):
    names = {file.stem for file in (root / "scenarios/suite").glob("*.yaml")} - {"protocol"}
    made = site_pages(table)
    index = "\n".join(pages(table)["suite.md"])
    assert made.keys() == {f"suite/{name}.md" for name in names}
    for name in names:
        title, *_, sizes = made[f"suite/{name}.md"]
        assert title == f"# {name}" and "trials of every method | " in sizes
        assert f"[`{name}`](../scenarios/suite/{name}.yaml)" in index
    assert any("(kind:dataset/femnist_shaped)" in text for text in made["suite/writers.md"])

"""The pages around the kept reports."""

import kept


def report_page(folder: str) -> str:
    """A page about a kept run, or a suite of them, with the way to its own page.

    Args:
      folder: in reports.
    """
    record = kept.records().get(folder)
    command = "fedsim suite report"
    if record:
        command = " ".join(record["surroundings"]["command"])
    return (
        f"# {kept.titles()[folder]}\n\n"
        f"[Open the report](report.html){{ .md-button .md-button--primary }}\n\n"
        f"Made by `{command}`.\n"
    )


def gallery_page() -> str:
    """A page that embeds the gallery of all kept runs."""
    return (
        "---\nhide: [toc, navigation]\n---\n\n# Kept runs\n\n"
        "`fedsim report --index DIR` makes this page of the runs in a folder.\n\n"
        '<iframe class="report" src="../reports/index.html" title="Kept runs"></iframe>\n'
    )

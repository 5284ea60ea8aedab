"""The pages around the kept reports."""

import kept


def report_page(folder: str) -> str:
    """A page that embeds the page of a kept run, or of a suite of them.

    Args:
      folder: in reports.
    """
    record = kept.records().get(folder)
    command = "fedsim suite report"
    if record:
        command = " ".join(record["surroundings"]["command"])
    return (
        f"---\nhide: [toc, navigation]\n---\n\n# {kept.titles()[folder]}\n\n"
        f"Made by `{command}`. [This page alone](report.html)\n\n"
        f'<iframe class="report" src="report.html" title="Report {folder}"></iframe>\n'
    )


def gallery_page() -> str:
    """A page that embeds the gallery of all kept runs."""
    return (
        "---\nhide: [toc, navigation]\n---\n\n# Kept runs\n\n"
        "`fedsim report --index DIR` makes this page of the runs in a folder.\n\n"
        '<iframe class="report" src="../reports/index.html" title="Kept runs"></iframe>\n'
    )

"""`report.html`: one self-contained page of a run, a comparison, or several of them, from their tables alone."""

from fedsim.report.page.content import Source as Source
from fedsim.report.page.content import page_of as page_of

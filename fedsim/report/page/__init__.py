"""`report.html`: one self-contained page of one or several runs, from their tables alone."""

from fedsim.report.page.content import page_of as page_of
from fedsim.report.page.sources import Source as Source

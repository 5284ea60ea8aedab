"""Pictures as data, each described once from the tables: `fedsim.report.page` and
`fedsim.report.figures` draw the same ones.
"""

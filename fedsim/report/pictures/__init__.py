"""Pictures as data, made from tables: `fedsim.report.page` and `.figures` draw them."""

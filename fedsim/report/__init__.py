"""The report: from tables and records to pages, figures and paper tables, as bytes.

It knows no path and reads no run.
"""

"""The report: tables and records in, pages, figures and paper tables out, as bytes. It knows no path and reads no run."""

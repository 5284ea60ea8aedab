"""Files on disk that are complete or absent, and the one CSV format."""

"""Bytes on disk that are whole or absent, and the one CSV codec."""

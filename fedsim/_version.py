"""The version, in a file of its own: whoever needs nothing else imports nothing else."""

__version__ = "0.7.0"

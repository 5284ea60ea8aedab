"""The version, in a file of its own: whoever needs nothing else imports nothing else."""

__version__ = "0.6.0"

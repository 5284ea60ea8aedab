"""`python -m fedsim` is `fedsim`."""

from fedsim.cli import command

if __name__ == "__main__":  # worker processes import this module as well
    command()

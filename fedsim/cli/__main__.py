"""`python -m fedsim.cli`."""

from fedsim.cli import main

main()

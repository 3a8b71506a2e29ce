"""`python -m tidings` is the command `tidings`."""

from tidings.cli.main import main

main(prog_name="tidings")

"""The command `tidings`: one file for each subcommand, imported only when it is called.

The only room that reads the environment, and the only one that may import every other.
"""

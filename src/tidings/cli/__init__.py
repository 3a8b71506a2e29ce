"""The command `tidings`: one file for each subcommand, imported when it is called.

Only this package reads the environment, and it may import every other.
"""

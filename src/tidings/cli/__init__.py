"""The command `tidings`: one file for each subcommand. Only this package reads the environment."""

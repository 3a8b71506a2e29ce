"""The command `tidings`: one file for each subcommand, imported when it is called.

Only this package reads the environment, and it may import every other. Functions here end a command with `Refusal`,
`OneShotFailed` or an error of the tree: `exits.ending` makes a message and an exit code of each.
"""

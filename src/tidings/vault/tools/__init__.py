"""The tools of the vault."""

"""The prompts of the vault."""

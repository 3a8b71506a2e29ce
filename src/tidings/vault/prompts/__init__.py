"""The prompts, each with what the vault holds on its subject."""

"""Prompts, with what the store holds on them."""

"""Obsidian's search language, on the index."""

"""Obsidian's search language, and what it finds in the index."""

"""Obsidian's bases: the language of their formulas, and the rows of their views."""

"""The Obsidian vault server: watching files, reading notes, the index, its resources and tools.

May import: `client`, `server`, `bus`, `changes`, `errors`.
"""

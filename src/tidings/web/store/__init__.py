"""Fetched pages, kept for a while: versions of pages, and the watches on them. Begin with `store.py`."""

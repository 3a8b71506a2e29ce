"""Watched pages: who wants them, when each is due, and one look at a page."""

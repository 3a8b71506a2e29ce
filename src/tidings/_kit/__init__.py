"""Mechanisms that exist once and that every package of Tidings may import."""

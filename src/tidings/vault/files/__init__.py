"""Folders and files of a vault: the one way in, and the one place that writes."""

"""The folders and files of a vault: where a path leads, and the one place that writes."""

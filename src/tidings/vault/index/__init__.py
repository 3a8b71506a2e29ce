"""The index of a vault in SQLite: built from the disk, and asked."""

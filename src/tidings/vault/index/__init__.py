"""What was read of a vault, kept in SQLite: from the disk into it, and questions to it."""

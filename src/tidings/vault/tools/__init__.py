"""What agents do with a vault, and what they are told of it."""

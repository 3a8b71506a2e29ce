"""The text of notes: pure functions without the SDK, imported by worker processes."""

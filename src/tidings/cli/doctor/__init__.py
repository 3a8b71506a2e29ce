"""tidings doctor."""

"""`tidings doctor`."""

"""What the faces read."""

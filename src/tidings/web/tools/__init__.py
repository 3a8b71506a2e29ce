"""What agents do with pages."""

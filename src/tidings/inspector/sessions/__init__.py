"""Sessions that outlive the inspector."""

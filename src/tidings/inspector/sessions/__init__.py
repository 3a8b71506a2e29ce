"""Sessions that outlive the inspector: stored, exported, and served again as a mock."""

"""Sessions that outlive the inspector: stored, exported, compared, and served again as a mock."""

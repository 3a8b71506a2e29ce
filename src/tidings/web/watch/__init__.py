"""Looking at pages again: who wants it, when each is due, and what counts as a change."""

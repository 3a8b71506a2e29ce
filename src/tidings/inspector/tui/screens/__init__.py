"""The tabs."""

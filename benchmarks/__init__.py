"""Measurements of Tidings beside its peer and the limit of the machine, printed as ratios."""

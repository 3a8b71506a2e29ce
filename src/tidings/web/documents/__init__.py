"""Documents: what a fetched page becomes, in time in proportion to its text. Nothing here fetches or stores."""

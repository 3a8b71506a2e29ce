"""What a fetched body says (docstring only, new)."""

"""The resources at vault:// URIs: addresses, lists, completions and content."""

"""`webfetch://` URIs: their contents, lists and completions."""

"""What a webfetch:// URI gives, and what is said of it in lists and completions."""

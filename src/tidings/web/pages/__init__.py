"""From a URL to a version of its page: fetched, read, compared, kept."""

"""Pages as a browser shows them, with all requests going through `fetch`."""

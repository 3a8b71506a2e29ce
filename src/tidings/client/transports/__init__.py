"""The four ways to a server."""

"""The tools of the web server."""

"""MCP Events (SEP-3415, a draft): events that clients list, poll, stream, or have posted to a webhook."""

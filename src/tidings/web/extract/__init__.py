"""The text of a fetched body: HTML, PDF, feeds, JSON, CSV, XML, Markdown and plain text."""

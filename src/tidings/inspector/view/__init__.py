"""Views of servers and sessions: the data that the page and the terminal app show."""

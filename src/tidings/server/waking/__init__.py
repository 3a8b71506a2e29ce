"""Waking: tools whose end a client hears of, so that its model goes on by itself."""

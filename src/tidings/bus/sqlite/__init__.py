"""The SQLite bus."""

from tidings.bus.sqlite.bus import SqliteBus as SqliteBus

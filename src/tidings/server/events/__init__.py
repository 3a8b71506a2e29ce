"""MCP Events (SEP-3415, a draft): events that clients list, poll, stream, or have posted to a webhook.

extension.py   EventsExtension: events/list, events/poll, events/stream; publishing
types.py       EventType: what an author declares, and what every live server has
reading.py     reading on from a cursor: bounded streams, and the compacted log
wire.py        names, numbers and shapes of the draft
"""

"""MCP Events (SEP-3415, a draft): events that clients list, poll, stream, or have posted to a webhook.

extension.py   EventsExtension: events/list, events/poll, events/stream
catalogue.py   EventCatalogue: declaring, publishing, permissions, cursors
types.py       EventType: what an author declares, and what every live server has
reading.py     reading on from a cursor: bounded streams, and the compacted log
webhooks.py    WebhookSubscriptions: events/subscribe and the like; the lease of deliveries
grants.py      webhook subscriptions on the bus
delivery.py    Delivery: posting the events of one subscription in order, retries, parking
posting.py     Poster: one signed request to a checked address
messages.py    the shapes of requests and answers; names, numbers and signatures are in `_kit.event_wire`
"""

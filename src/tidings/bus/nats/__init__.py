"""The NATS bus."""

from tidings.bus.nats.bus import NatsBus as NatsBus

"""The NATS bus. Its package is imported when `NatsBus` is first used."""

from typing import TYPE_CHECKING

from tidings._kit.lazy import lazy_names

if TYPE_CHECKING:
    from tidings.bus.nats.bus import NatsBus as NatsBus

__all__ = ["NatsBus"]
__getattr__ = lazy_names(__name__, {"NatsBus": "tidings.bus.nats.bus"})

"""The Redis bus. Its package is imported when `RedisBus` is first used."""

from typing import TYPE_CHECKING

from tidings._kit.lazy import lazy_names

if TYPE_CHECKING:
    from tidings.bus.redis.bus import RedisBus as RedisBus

__all__ = ["RedisBus"]
__getattr__ = lazy_names(__name__, {"RedisBus": "tidings.bus.redis.bus"})

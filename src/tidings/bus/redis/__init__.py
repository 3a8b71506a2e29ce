"""The Redis bus."""

from tidings.bus.redis.bus import RedisBus as RedisBus

"""Fixtures for all tests of the client."""

from tests.client.bad_servers import tidy

__all__ = ["tidy"]

"""The log that a test of events runs on."""

from tests.bus.conftest import bus_factory

__all__ = ["bus_factory"]

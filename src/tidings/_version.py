"""The version of Tidings. The package's metadata and everything that states the version read it from here."""

__version__ = "0.1.0"

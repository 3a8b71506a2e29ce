"""The only way to the network: every connection is checked, every body is bounded. Begin with `fetcher.py`."""

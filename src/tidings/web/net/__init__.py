"""The one way to the network: every connection is vetted, every body is bounded."""

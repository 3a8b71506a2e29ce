"""The bridge: any MCP server made live, in both eras; several behind one address."""

from tidings.bridge.server import BridgeServer
from tidings.bridge.settings import CallWatch, ClientCredentials, UpstreamSpec

__all__ = ["BridgeServer", "CallWatch", "ClientCredentials", "UpstreamSpec"]

"""A server as most are: it tells nobody when something changes.

    tidings bridge "python weather.py" --http

With the bridge before it, clients of both eras hear of each change.
"""

from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

report = Path(__file__).with_name("report.txt")
mcp = MCPServer("weather", log_level="WARNING")


@mcp.resource("weather://oslo")
def oslo() -> str:
    return report.read_text() if report.exists() else "rain"


@mcp.tool(annotations=ToolAnnotations(read_only_hint=True))
def forecast(city: str) -> str:
    return f"{city}: {oslo()}"


if __name__ == "__main__":
    mcp.run()

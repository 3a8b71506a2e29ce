"""A weather server for many replicas: what one publishes, the subscribers of all hear.

    BUS=sqlite:///tmp/weather.db uvicorn server:app --port 8000

`BUS` is the address of the log that the replicas share, `HOSTS` the names under which clients reach them, and `REPORTS`
the folder of the data, which all replicas read.
"""

import os
from pathlib import Path

from mcp.server.transport_security import TransportSecuritySettings

from tidings import LiveServer

reports = Path(os.environ.get("REPORTS", "/tmp/weather-reports"))
hosts = os.environ.get("HOSTS", "127.0.0.1:*,localhost:*").split(",")

mcp = LiveServer("weather", bus=os.environ.get("BUS"))


@mcp.resource("weather://{city}")
def weather(city: str) -> str:
    report = reports / f"{city}.txt"
    return report.read_text() if report.is_file() else "unknown"


@mcp.tool()
async def report(city: str, text: str) -> str:
    if not city.isalpha():
        raise ValueError("The name of a city has only letters.")
    reports.mkdir(exist_ok=True)
    (reports / f"{city}.txt").write_text(text)
    await mcp.notify.resource_updated(f"weather://{city}")
    return f"noted by {os.environ.get('HOSTNAME', 'this replica')}"


app = mcp.asgi(ready="/ready", transport_security=TransportSecuritySettings(allowed_hosts=hosts))

"""Serves the MCP server in a Python file over standard input and output: `python python_file.py FILE [NAME [ARGS]]`.

With NAME, the file is imported, and its object of that name is served. Without one, the file runs as a program. If it
ends without serving, its object `mcp`, `server` or `app` is served. It runs in the Python of the server's author, so it
imports nothing of Tidings.
"""

import importlib.util
import select
import sys
from pathlib import Path
from typing import Any, Final

_NAMES: Final = ("mcp", "server", "app")


def main(file: str, name: str = "", *args: str) -> None:
    path = Path(file).resolve()
    sys.path[0], sys.argv[:] = str(path.parent), [file, *args]
    as_name = path.stem if name else "__main__"
    spec: Any = importlib.util.spec_from_file_location(as_name, path)
    module = sys.modules[as_name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not name and hasattr(select, "poll"):  # Not on Windows.
        watched = select.poll()
        watched.register(sys.__stdin__ or 0, 0)
        if any(event & (select.POLLHUP | select.POLLNVAL) for _, event in watched.poll(0)):
            return  # The file has served until its client left.
    names = (name,) if name else _NAMES
    server = next((found for each in names if hasattr(found := getattr(module, each, None), "run")), None)
    if server is None:
        has = f"no server called {name}" if name else "no server called mcp, server or app, and starts none"
        found = [each for each, it in vars(module).items() if hasattr(it, "instructions") and not isinstance(it, type)]
        meant = " or ".join(f"{path.name}:{each}" for each in found)
        cure = f"Did you mean {meant}?" if found else f"Name the object after a colon, for example {path.name}:mcp"
        raise SystemExit(f"{file} has {has}. {cure}")
    if hasattr(server, "run_stdio_async"):  # MCPServer, FastMCP, LiveServer.
        server.run("stdio")
        return
    import anyio  # noqa: PLC0415 - the file's own Python has it, with the SDK
    from mcp.server.stdio import stdio_server  # noqa: PLC0415

    async def serve() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(serve)


if __name__ == "__main__":
    main(*sys.argv[1:])

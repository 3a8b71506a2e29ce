"""What a tool returned, held against the schema that its server announced.

The SDK does that on the event loop, in however much time the schema takes: a pattern such as `(a+)+$` halts everything,
for good. Here it is done in a thread, and given up where it would take long. What could not be judged is let through:
schema and result come from the same server, so the check finds its mistakes, and guards nobody.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from mcp import Client
from mcp_types import CallToolResult

_SECONDS: Final = 1.0
_LONGEST: Final = 200
"""Characters of a complaint."""


def check_in_bounds(client: Client) -> None:
    """Have the SDK's client check what tools return here."""
    session: Any = client.session

    async def checked(name: str, result: CallToolResult) -> None:
        schemas: Mapping[str, Any] = session._tool_output_schemas  # noqa: SLF001 - pinned by a test
        if name not in schemas:
            await session.list_tools()
        if (schema := schemas.get(name)) is None:
            return
        if "structured_content" not in result.model_fields_set:
            raise RuntimeError(f"Tool {name} has an output schema, but returned no structured content")
        if wrong := await asyncio.to_thread(complaint, schema, result.structured_content):
            raise RuntimeError(f"Tool {name}: {wrong}")

    session.validate_tool_result = checked


def leave_unchecked(client: Client) -> None:
    """Have the SDK's client take what tools return as it is."""

    async def taken(_name: str, _result: CallToolResult) -> None:
        pass

    session: Any = client.session
    session.validate_tool_result = taken


def complaint(schema: Mapping[str, Any], value: object) -> str:
    """What is wrong with a tool's result, or with the schema it is measured by; empty if nothing is known to be."""
    from referencing.exceptions import Unresolvable  # noqa: PLC0415 - see there

    from tidings.client import validation  # noqa: PLC0415 - takes a tenth of a second

    try:
        with validation.time_limit(_SECONDS):
            if (error := validation.schema_error(schema)) is not None:
                return f"its output schema is wrong at {error.json_path}: {_short(error.message)}"
            error = validation.best_error(schema, value)
    except validation.OutOfTime:
        return ""
    except Unresolvable as missing:
        return f"its output schema refers to {_short(missing.ref)}, which is not in it, and nothing is fetched"
    except RecursionError:
        return (
            "its output schema, or what it returned, is nested too deeply, or the schema refers to itself without end"
        )
    except Exception:  # noqa: BLE001 - the library stumbles over some schemas and values: nobody can say, then
        return ""
    return "" if error is None else f"what it returned does not fit its output schema: {_told(error)}"


def _told(error: Any) -> str:
    at = "" if error.json_path == "$" else f"{error.json_path}: "
    return at + _short(error.message)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

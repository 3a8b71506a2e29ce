"""Named errors as JSON-RPC errors."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from pydantic import ValidationError

from tidings.errors import InvalidUri, NotSubscribable, ResourceNotFound, TidingsError


@contextmanager
def rpc_errors(*, not_found: int) -> Generator[None]:
    """Turn named errors into JSON-RPC errors; `not_found` is the era's code for a resource that is not there."""
    try:
        yield
    except TidingsError as error:
        raise MCPError(code=_code(error, not_found), message=error.message, data=_data(error)) from error


def _code(error: TidingsError, not_found: int) -> int:
    match error:
        case ResourceNotFound():
            return not_found
        case InvalidUri() | NotSubscribable():
            return INVALID_PARAMS
        case _:
            return INTERNAL_ERROR


def _data(error: TidingsError) -> dict[str, Any]:
    return {"code": error.code, "retryable": error.retryable, **(error.data or {})}


def invalid_params(method: str, error: ValidationError) -> MCPError:
    """The error for parameters of the wrong shape, which says what is wrong with which. The values are not repeated."""
    details = [f"{'.'.join(map(str, item['loc'])) or 'params'}: {item['msg']}" for item in error.errors()[:5]]
    return MCPError(code=INVALID_PARAMS, message=f"Invalid parameters for {method}: {'; '.join(details)}")

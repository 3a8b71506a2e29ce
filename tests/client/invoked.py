"""Invocations for tests of what keeps them."""

from datetime import UTC, datetime
from typing import Any

from mcp_types import CallToolResult, GetPromptResult, PromptMessage, ReadResourceResult, TextContent
from mcp_types import TextResourceContents as Text

from tidings.client.cache import PromptGet, ResourceRead, TemplateRead, ToolCall

WHEN = datetime(2026, 7, 28, 12, 30, 15, 123456, UTC)


def contents(uri: str, text: str, **hints: Any) -> ReadResourceResult:
    return ReadResourceResult(contents=[Text(uri=uri, text=text)], **hints)


def resource(uri: str, text: str = "content", **hints: Any) -> ResourceRead:
    return ResourceRead(uri, contents(uri, text, **hints), WHEN)


def template(uri_template: str, uri: str, text: str = "content", **hints: Any) -> TemplateRead:
    return TemplateRead(uri_template, uri, {"name": uri}, contents(uri, text, **hints), WHEN)


def prompt(name: str, text: str = "content") -> PromptGet:
    message = PromptMessage(role="user", content=TextContent(text=text))
    return PromptGet(name, GetPromptResult(messages=[message]), {"city": "Oslo"}, WHEN)


def tool(name: str, text: str = "content") -> ToolCall:
    return ToolCall(name, {"a": 1}, CallToolResult(content=[TextContent(text=text)]), success=True, timestamp=WHEN)

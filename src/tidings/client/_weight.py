"""How many bytes an invocation's content takes: near enough for a limit, and cheap.

May import: `invocations`.
"""

import sys
from collections.abc import Iterable
from typing import Any, cast

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)

from tidings.client.invocations import Invocation, PromptGet, ToolCall


def weigh(invocation: Invocation) -> int:
    """Bytes of what the server sent: texts, blobs, structured content. What was asked is not counted."""
    if isinstance(invocation, PromptGet):
        return _blocks(message.content for message in invocation.result.messages)
    if isinstance(invocation, ToolCall):
        result = invocation.result
        return 0 if result is None else _blocks(result.content) + _value(result.structured_content)
    return sum(_contents(part) for part in invocation.result.contents)


def _text(text: str) -> int:
    # Neither looks at the characters: Python knows whether a text is ASCII, and how wide it is if it is not.
    return len(text) if text.isascii() else sys.getsizeof(text)


def _contents(part: TextResourceContents | BlobResourceContents) -> int:
    return _text(part.blob if isinstance(part, BlobResourceContents) else part.text)


def _blocks(blocks: Iterable[ContentBlock]) -> int:
    return sum(_block(block) for block in blocks)


def _block(block: ContentBlock) -> int:
    match block:
        case TextContent():
            return _text(block.text)
        case ImageContent() | AudioContent():
            return _text(block.data)
        case EmbeddedResource():
            return _contents(block.resource)
        case _:
            return _text(block.uri)


def _value(value: object) -> int:
    """Bytes of a JSON value, however deep."""
    size = 0
    waiting: list[object] = [value]
    while waiting:
        found = waiting.pop()
        match found:
            case None:
                pass
            case str():
                size += _text(found)
            case dict():
                mapping = cast("dict[str, Any]", found)
                waiting += (*mapping.keys(), *mapping.values())
            case list():
                waiting += cast("list[Any]", found)
            case _:
                size += 8
    return size

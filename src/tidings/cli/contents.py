"""Content that a server sent, printed: text as it is, binary where it does no harm, everything else described.

On a terminal, binary content is refused and characters that would steer the terminal are made visible; into a pipe or a
file goes what the server sent, byte for byte.
"""

import base64
import binascii
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

import click

from tidings.cli.exits import OneShotFailed, malformed
from tidings.cli.terminal import escaped, harmless, size_text, styled

Content = dict[str, Any]

_UNFIT: Final = re.compile(r"[^\w.~ -]")
"""What has no place in the name of a file that a server proposes."""


def decoded(blob: object) -> bytes:
    """The bytes that a server sent as base64.

    Raises:
        Failed: It is none.
    """
    try:
        return base64.b64decode(str(blob), validate=True)
    except (binascii.Error, ValueError):
        raise malformed("The server sent binary content that is not base64.", str(blob)[:200]) from None


def show_resource(contents: Sequence[Content], output: str | None) -> None:
    """Print the contents of a resource, or write them to a file."""
    parts = [bytes_of(content) for content in contents]
    if output is not None:
        save(parts, [str(content.get("uri", "")) for content in contents], output)
        return
    terminal = sys.stdout.isatty()
    for content, data in zip(contents, parts, strict=True):
        if terminal and len(contents) > 1:
            click.echo(styled(f"— {harmless(str(content.get('uri')))}", "place"))
        if isinstance(content.get("text"), str):
            write_text(content["text"])
        elif terminal:
            raise OneShotFailed(
                f"{content.get('uri')} is {described(content.get('mimeType'), len(data))}, which is nothing for a "
                "terminal. Save it with --output FILE, or send it on with a pipe.",
                code="binary-content",
            )
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


def bytes_of(content: Content) -> bytes:
    """What a content of a resource is.

    Raises:
        Failed: It is neither text nor binary.
    """
    if isinstance(content.get("text"), str):
        return content["text"].encode(errors="backslashreplace")
    if not isinstance(content.get("blob"), str):
        raise malformed("The server sent a content with neither a text nor a blob.", content)
    return decoded(content["blob"])


def described(kind: object, size: int) -> str:
    """Binary content, in words."""
    return f"{kind or 'binary content'} of {size_text(size)}"


def write_text(text: str) -> None:
    """Print a text; on a terminal harmless, and with an end of line."""
    if sys.stdout.isatty():
        text = harmless(text)
        text += "" if text.endswith("\n") else "\n"
    sys.stdout.write(text)


def save(parts: Sequence[bytes], names: Sequence[str], output: str) -> None:
    """Write content to a file; several contents into a folder.

    Raises:
        Failed: It cannot be written there.
    """
    place = Path(output)
    if not parts:
        raise OneShotFailed("There is no content to save.", code="nothing-to-save")
    if len(parts) > 1 and not place.is_dir():
        raise OneShotFailed(f"There are {len(parts)} contents: give --output a folder that exists.")
    try:
        for number, (data, name) in enumerate(zip(parts, names, strict=True), 1):
            last = _UNFIT.sub("_", name.partition("?")[0].rstrip("/").rpartition("/")[2]).strip(".") or "content"
            file = place / (f"{number}-{last}" if len(parts) > 1 else last) if place.is_dir() else place
            file.write_bytes(data)
            click.echo(f"Saved {size_text(len(data))} to {file}", err=True)
    except OSError as error:
        raise OneShotFailed(f"{output} cannot be written ({error.strerror}).") from None


def show_blocks(blocks: Sequence[Content], *, err: bool = False) -> None:
    """Print what a tool returned or a prompt says: texts as they are, the rest described."""
    for block in blocks:
        text = text_of(block)
        terminal = (sys.stderr if err else sys.stdout).isatty()
        click.echo(harmless(text) if terminal else text, err=err)


def text_of(block: Content) -> str:
    """A block of content as text."""
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "image" | "audio" as kind:
            return (
                f"[{kind}: {described(block.get('mimeType'), len(decoded(block.get('data'))))}; --output FILE saves it]"
            )
        case "resource_link":
            return f"[resource: {block.get('uri')}]"
        case "resource":
            inner = cast("Content", block.get("resource") or {})
            if isinstance(inner.get("text"), str):
                return inner["text"]
            return f"[{described(inner.get('mimeType'), len(decoded(inner.get('blob', ''))))}; --output FILE saves it]"
        case _:
            return json.dumps(block, ensure_ascii=False)


def binary_of(block: Content) -> bytes | None:
    """The bytes of a block of content that has some."""
    if block.get("type") in ("image", "audio"):
        return decoded(block.get("data"))
    inner = cast("Content", block.get("resource") or {})
    return decoded(inner["blob"]) if "blob" in inner else None


def dumped(value: Any) -> str:
    """A JSON document: for people to read on a terminal, on one line elsewhere."""
    if not sys.stdout.isatty():
        return json.dumps(value, ensure_ascii=False)
    return escaped(json.dumps(value, ensure_ascii=False, indent=2))

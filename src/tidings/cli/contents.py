"""Printing content that a server sent: to a pipe or a file as it is, to a terminal without what could harm it."""

import base64
import binascii
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

import click

from tidings._kit.text import harmless, harmless_json, size_text
from tidings.cli.exits import BAD_ANSWER, OneShotFailed, malformed
from tidings.cli.terminal import styled

Content = dict[str, Any]

_UNFIT: Final = re.compile(r"[^\w.~ -]")  # Characters that are replaced in a file name that a server proposes


def decoded(blob: object) -> bytes:
    """Decodes base64."""
    try:
        return base64.b64decode(str(blob), validate=True)
    except (binascii.Error, ValueError):
        raise malformed("The server sent binary content that is not base64.", str(blob)[:200]) from None


def show_result(result: dict[str, Any], output: str | None, *, as_json: bool, events: bool) -> None:
    """Prints the result of a tool, and ends the command with exit code 1 if the tool reported an error."""
    blocks: list[Content] = result.get("content") or []
    is_error = bool(result.get("isError"))
    if output is not None and not is_error:
        binary = [(data, block) for block in blocks if (data := binary_of(block)) is not None]
        if not binary:
            raise OneShotFailed("The result has no binary content to save. Omit --output to print its text.")
        kinds = [(block.get("type", "content"), str(block.get("mimeType", ""))) for _, block in binary]
        save([data for data, _ in binary], [f"{kind}.{mime.rpartition('/')[2]}" for kind, mime in kinds], output)
    if as_json:
        click.echo(json.dumps({"result": result}, ensure_ascii=False) if events else dumped(result))
    elif is_error:
        click.echo("The tool reported an error:", err=True)
        show_blocks(blocks, err=True)
    elif blocks:
        show_blocks(blocks)
    elif result.get("structuredContent") is not None:
        click.echo(dumped(result["structuredContent"]))
    if is_error:
        sys.exit(BAD_ANSWER)


def show_resource(contents: Sequence[Content], output: str | None) -> None:
    """Prints the contents of a resource, or writes them to `output`."""
    parts = [bytes_of(content) for content in contents]
    if output is not None:
        save(parts, [str(content.get("uri", "")) for content in contents], output)
        return
    terminal = sys.stdout.isatty()
    for content, data in zip(contents, parts, strict=True):
        if terminal and len(contents) > 1:
            click.echo(styled(f"— {harmless(str(content.get('uri')))}", "place"))
        if isinstance(content.get("text"), str):
            text = harmless(content["text"]) if terminal else content["text"]
            sys.stdout.write(text + ("\n" if terminal and not text.endswith("\n") else ""))
        elif terminal:
            raise OneShotFailed(
                f"{content.get('uri')} is {described(content.get('mimeType'), len(data))}, which cannot be shown in a "
                "terminal. Save it with --output FILE, or send it to a pipe.",
                code="binary-content",
            )
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()


def bytes_of(content: Content) -> bytes:
    """Returns the bytes of one content of a resource."""
    if isinstance(content.get("text"), str):
        return content["text"].encode(errors="backslashreplace")
    if not isinstance(content.get("blob"), str):
        raise malformed("The server sent content with neither a text nor a blob.", content)
    return decoded(content["blob"])


def described(kind: object, size: int) -> str:
    """Returns binary content in words: "image/png of 12 KB"."""
    return f"{kind or 'binary content'} of {size_text(size)}"


def save(parts: Sequence[bytes], names: Sequence[str], output: str) -> None:
    """Writes content to a file, or several contents into a folder."""
    place = Path(output)
    if not parts:
        raise OneShotFailed("There is no content to save.", code="nothing-to-save")
    if len(parts) > 1 and not place.is_dir():
        raise OneShotFailed(f"There are {len(parts)} contents. Give --output a folder that exists.")
    try:
        for number, (data, name) in enumerate(zip(parts, names, strict=True), 1):
            last = _UNFIT.sub("_", name.partition("?")[0].rstrip("/").rpartition("/")[2]).strip(".") or "content"
            file = place / (f"{number}-{last}" if len(parts) > 1 else last) if place.is_dir() else place
            file.write_bytes(data)
            click.echo(f"Saved {size_text(len(data))} to {file}", err=True)
    except OSError as error:
        raise OneShotFailed(f"Cannot write {output}: {error.strerror}.") from None


def show_blocks(blocks: Sequence[Content], *, err: bool = False) -> None:
    """Prints the content blocks of a tool result or a prompt: texts as they are, the rest described."""
    for block in blocks:
        text = _text_of(block)
        click.echo(harmless(text) if (sys.stderr if err else sys.stdout).isatty() else text, err=err)


def _text_of(block: Content) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "image" | "audio" as kind:
            size = len(decoded(block.get("data")))
            return f"[{kind}: {described(block.get('mimeType'), size)}; --output FILE saves it]"
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
    """Returns the bytes of a content block; None if it has none."""
    if block.get("type") in ("image", "audio"):
        return decoded(block.get("data"))
    inner = cast("Content", block.get("resource") or {})
    return decoded(inner["blob"]) if "blob" in inner else None


def dumped(value: Any) -> str:
    """Returns a JSON document: indented on a terminal, on one line elsewhere."""
    if not sys.stdout.isatty():
        return json.dumps(value, ensure_ascii=False)
    return harmless_json(json.dumps(value, ensure_ascii=False, indent=2))

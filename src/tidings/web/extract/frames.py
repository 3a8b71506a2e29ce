"""What passes between the server and a worker: frames of a length and that many bytes.

A question is pickled: the server is trusted. An answer is JSON and made into one of four things, because a worker reads
what strangers wrote: whatever becomes of it, nothing that it says can run here.
"""

import json
from dataclasses import asdict
from typing import Any, BinaryIO, cast

from tidings.web.extract.html.selectors import BadSelector
from tidings.web.extract.model import Extracted, ExtractionFailed, ExtractWarning, FeedEntry, PageLink, Unsupported

LEFT = 75
"""What a worker ends with that has been idle for long: whatever it was sent meanwhile, it has not looked at."""
HEAD = 8
"""Bytes of a length."""
LARGEST = 256 * 1024 * 1024
"""Bytes of a frame: more than a body may have, or what is made of it."""

Failure = Unsupported | ExtractionFailed | BadSelector


def framed(content: bytes) -> bytes:
    """`content` behind its length."""
    return len(content).to_bytes(HEAD, "big") + content


def length(head: bytes) -> int:
    """The length that a frame begins with.

    Raises:
        ValueError: It is none that can be.
    """
    size = int.from_bytes(head, "big")
    if size > LARGEST:
        raise ValueError(f"a frame of {size:,} bytes")
    return size


def read_frame(source: BinaryIO) -> bytes:
    """The next frame of a file.

    Raises:
        EOFError: There is none, or not all of it.
    """
    head = source.read(HEAD)
    if len(head) < HEAD:
        raise EOFError
    size = length(head)
    content = source.read(size)
    if len(content) < size:
        raise EOFError
    return content


def written_answer(outcome: Extracted | Failure, *, last: bool) -> bytes:
    """An answer; `last` says that the worker ends with it."""
    match outcome:
        case Extracted():
            said: dict[str, Any] = {"found": asdict(outcome)}
        case Unsupported():
            said = {"unsupported": outcome.content_type}
        case ExtractionFailed():
            said = {"failed": [outcome.kind, str(outcome)]}
        case BadSelector():
            said = {"selector": outcome.selector}
    return json.dumps({**said, "last": last}, ensure_ascii=False).encode("utf-8", "replace")


def read_answer(content: bytes) -> tuple[Extracted | Failure, bool]:
    """What the worker said, and whether it ends.

    Raises:
        ValueError: It is no answer.
    """
    try:
        said = cast("dict[str, Any]", json.loads(content))
        return _outcome(said), said["last"] is True
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("no answer") from error


def _outcome(said: dict[str, Any]) -> Extracted | Failure:
    if "found" in said:
        return _found(said["found"])
    if "unsupported" in said:
        return Unsupported(str(said["unsupported"]))
    if "selector" in said:
        return BadSelector(str(said["selector"]))
    kind, message = said["failed"]
    return ExtractionFailed(str(kind), str(message))


def _found(said: dict[str, Any]) -> Extracted:
    parts: dict[str, Any] = {
        "links": tuple(PageLink(**one) for one in said["links"]),
        "warnings": tuple(ExtractWarning(**one) for one in said["warnings"]),
        "entries": tuple(FeedEntry(**one) for one in said["entries"]),
        "hidden": tuple(said["hidden"]),
        "concealed": tuple((int(start), int(end)) for start, end in said["concealed"]),
    }
    return Extracted(**{**said, **parts})

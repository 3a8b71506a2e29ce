"""What a front knows to answer, and to which requests: those that every client sends, as every client sends them.

What the server answers depends on more than the method: on the version of the protocol, on what the client says of
itself, on whether all of that is valid. Only where nothing of it can matter is there an answer.

May import: nothing that takes long.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast

Table = Mapping[str, Mapping[str, str]]
"""What is known: by the version of the protocol and the method, the result in JSON."""

LONGEST: Final = 65_536
"""Bytes of a line; what is longer is not for a front."""

_META: Final = "io.modelcontextprotocol/"
_ENVELOPE: Final = {_META + "protocolVersion", _META + "clientCapabilities", _META + "clientInfo"}
_DEEPEST: Final = 8
_LARGEST_ID: Final = 2**53


class Answer(NamedTuple):
    """An answer, and the request that it is for."""

    id: int | str
    line: bytes


class Answers:
    """Answers what is known beforehand, in the era that the client's first request opens.

    Args:
        table: What is known. A version with `initialize` is one of the handshake; others are named in each request.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._version: str | None = None
        self._ids: set[int | str] = set()
        self._lost = False

    def answer(self, message: dict[str, Any] | None) -> Answer | None:
        """The answer to a message, or None if it needs none, or if the server has to give it.

        Of None, which is no message at all, nobody knows what becomes of it: no more is answered then.
        """
        if self._lost or message is None or not _is_message(message):
            self._lost = True
            return None
        if "id" not in message:
            return None
        id_: Any = message["id"]
        if not _is_id(id_) or id_ in self._ids:
            self._lost = True
            return None
        version = self._version_of(message["method"], message.get("params", {}), first=not self._ids)
        self._ids.add(id_)
        result = self._table.get(version or "", {}).get(message["method"])
        if result is None:
            return None
        return Answer(id_, f'{{"jsonrpc":"2.0","id":{json.dumps(id_)},"result":{result}}}\n'.encode())

    def _version_of(self, method: str, params: object, *, first: bool) -> str | None:
        """By which version a request is to be answered; None if that is not known, or depends on more."""
        if method == "initialize":
            version = _asked_version(params) if first else None
            self._version = version if self._shakes_hands(version) else None
            self._lost = self._version is None
            return self._version
        if self._version is not None:
            return self._version if params == {} else None
        version = _envelope_version(params)
        if version is None or self._shakes_hands(version):
            # The first request says in which era the others are.
            self._lost |= first
            return None
        return version

    def _shakes_hands(self, version: str | None) -> bool:
        return "initialize" in self._table.get(version or "", {})


def parse(line: bytes) -> dict[str, Any] | None:
    """The message in a line, if it is one that everybody reads alike."""
    if len(line) > LONGEST or b"\\ud" in line.lower():  # Half of a character, perhaps.
        return None
    try:
        message = json.loads(line.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", message) if isinstance(message, dict) else None


def _refuse(name: str) -> None:
    raise ValueError(name)


def _is_message(message: dict[str, Any]) -> bool:
    known = message.keys() <= {"jsonrpc", "id", "method", "params"}
    return known and message.get("jsonrpc") == "2.0" and isinstance(message.get("method"), str)


def _is_id(value: object) -> bool:
    return isinstance(value, str) or (type(value) is int and abs(value) < _LARGEST_ID)


def _asked_version(params: object) -> str | None:
    """The version that an `initialize` asks for."""
    given = _object(params) or {}
    version = given.get("protocolVersion")
    usual = (
        given.keys() == {"protocolVersion", "capabilities", "clientInfo"}
        and _are_capabilities(given["capabilities"])
        and _is_info(given["clientInfo"])
    )
    return version if usual and isinstance(version, str) else None


def _envelope_version(params: object) -> str | None:
    """The version that a request of the modern era names."""
    given = _object(params) or {}
    meta = _object(given.get("_meta")) or {}
    version = meta.get(_META + "protocolVersion")
    usual = (
        given.keys() == {"_meta"}
        and meta.keys() <= _ENVELOPE
        and _are_capabilities(meta.get(_META + "clientCapabilities"))
        and (_META + "clientInfo" not in meta or _is_info(meta[_META + "clientInfo"]))
    )
    return version if usual and isinstance(version, str) else None


def _object(value: object) -> dict[str, object] | None:
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def _is_info(value: object) -> bool:
    info = _object(value) or {}
    known = info.keys() <= {"name", "version", "title", "description", "websiteUrl"}
    return known and info.keys() >= {"name", "version"} and all(isinstance(text, str) for text in info.values())


def _are_capabilities(value: object) -> bool:
    some = _object(value)
    return some is not None and all(name in _CAPABILITIES and _CAPABILITIES[name](some[name]) for name in some)


def _is_roots(value: object) -> bool:
    roots = _object(value)
    return roots is not None and all(name == "listChanged" and isinstance(roots[name], bool) for name in roots)


def _is_nested(value: object, depth: int = _DEEPEST) -> bool:
    """Whether there are objects in objects, and nothing else."""
    parts = _object(value)
    return depth > 0 and parts is not None and all(_is_nested(part, depth - 1) for part in parts.values())


def _are_settings(value: object) -> bool:
    """Whether this is an object of objects, with anything in them that is not too deep."""
    some = _object(value)
    return some is not None and all(_object(each) is not None and _is_shallow(each) for each in some.values())


def _is_shallow(value: object, depth: int = _DEEPEST) -> bool:
    parts = cast("list[object]", value) if isinstance(value, list) else [*(_object(value) or {}).values()]
    return depth > 0 and all(_is_shallow(part, depth - 1) for part in parts)


_CAPABILITIES: Final[Mapping[str, Callable[[object], bool]]] = {
    "roots": _is_roots,
    "sampling": _is_nested,
    "elicitation": _is_nested,
    "tasks": _is_nested,
    "experimental": _are_settings,
    "extensions": _are_settings,
}

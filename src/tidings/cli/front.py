"""What answers a client over standard input and output while the server behind it is still being imported.

    front_answers.py   what is known beforehand, and to whom it is said: the handshake, and lists that never change
    Front              reads what the client sends, gives those answers, and passes everything on
    Wire               what the server writes to: drops its own answer where one was given

The server gets the whole input from its beginning, and answers it; so its state is right, and it knows nothing of this.
The front falls silent with the server's first word. What is not exactly as it knows it, it leaves to the server: an
unknown version, a parameter that few send, a line that is no JSON.

May import: nothing that takes long. That is the point.
"""

import io
import json
import logging
import os
import sys
import threading
from contextlib import suppress
from typing import Any, Final

from tidings.cli.front_answers import LONGEST, Answer, Answers, Table, parse

logger = logging.getLogger(__name__)

_CHUNK: Final = 65_536


class Wire(io.RawIOBase):
    """What goes to the client: first what the front knows, then what the server says, without what was said already.

    Args:
        sink: The file that the client reads.
    """

    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._lock = threading.Lock()
        self._given: dict[int | str, bytes] = {}
        self._rest = b""
        self._silent = False

    @property
    def silent(self) -> bool:
        """Whether the server speaks for itself."""
        return self._silent

    def give(self, answer: Answer) -> bool:
        """Give an answer in place of the server; whether that was still to be done."""
        with self._lock:
            if self._silent:
                return False
            try:
                self._send(answer.line)
            except OSError:
                self._silent = True  # The server has to meet that itself.
                return False
            self._given[answer.id] = answer.line
            return True

    def was_given(self, id_: object) -> bool:
        """Whether a request was answered in place of the server."""
        with self._lock:
            return isinstance(id_, int | str) and id_ in self._given

    # What the server uses

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        with self._lock:
            self._silent = True
            if not self._given and not self._rest:
                self._send(data)
                return len(data)
            *lines, self._rest = (self._rest + bytes(data)).split(b"\n")
            for line in lines:
                if not self._is_given(line):
                    self._send(line + b"\n")
            if not self._given:
                rest, self._rest = self._rest, b""
                self._send(rest)
            return len(data)

    def _is_given(self, line: bytes) -> bool:
        """Whether this is the server's own answer to what was answered already."""
        message: dict[str, Any] = json.loads(line) if self._given else {}
        if "method" in message or message.get("id") not in self._given:
            return False
        given = json.loads(self._given.pop(message["id"]))
        if given != message:
            logger.warning("What was answered while the server started is not what it answers: %s", list(message))
        return True

    def _send(self, data: Any) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._sink, view) :]


class Front:
    """Reads what a client sends, answers what is known, and passes it on: in a thread of its own, to the end.

    Args:
        answers: What is known.
        source: The file that the client writes.
        wire: Where the answers go.
        target: The pipe from which the server reads. It has no need to hold much: what does not fit waits.
    """

    def __init__(self, answers: Answers, source: int, wire: Wire, target: int) -> None:
        self._answers = answers
        self._source = source
        self._wire = wire
        self._target = target

    def start(self) -> None:
        threading.Thread(target=self._run, name="tidings-front", daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):  # The server reads no more; or the input broke off, which is its end.
            self._pass_on()
        os.close(self._target)

    def _pass_on(self) -> None:
        rest = b""
        while chunk := os.read(self._source, _CHUNK):
            rest += chunk
            if self._wire.silent or len(rest) > LONGEST:
                self._answers.answer(None)
                self._send(rest)
                rest = b""
                continue
            *lines, rest = rest.split(b"\n")
            for line in lines:
                self._take(line)
        self._send(rest)

    def _take(self, line: bytes) -> None:
        message = parse(line)
        if (answer := self._answers.answer(message)) is not None:
            self._wire.give(answer)
        # The server would give no answer to what was taken back, and that would be waited for.
        if message is None or not self._takes_back(message):
            self._send(line + b"\n")

    def _takes_back(self, message: dict[str, Any]) -> bool:
        if message.get("method") != "notifications/cancelled" or not isinstance(message.get("params"), dict):
            return False
        return self._wire.was_given(message["params"].get("requestId"))

    def _send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._target, view) :]


class _Diverted(io.TextIOWrapper):
    """Standard output while there is a front: what is printed goes elsewhere, and whoever serves has the wire."""

    wire: Wire

    @property
    def buffer(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride] - what is asked for is the wire
        return self.wire


def can_stand() -> bool:
    """Whether standard input and output are pipes that a front can stand before."""
    try:
        return sys.platform != "win32" and sys.stdin.fileno() == 0 and sys.stdout.fileno() == 1 and not os.isatty(0)
    except (AttributeError, OSError, ValueError):
        return False


def stand(table: Table) -> None:
    """Stand before the server that this process is about to run over standard input and output."""
    source, sink = os.dup(0), os.dup(1)
    readable, target = os.pipe()
    os.dup2(readable, 0)
    os.close(readable)
    try:
        os.dup2(2, 1)
    except OSError:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
        os.close(nothing)
    printed = _Diverted(open(1, "wb", closefd=False), encoding="utf-8", errors="replace", line_buffering=True)  # noqa: SIM115
    printed.wire = Wire(sink)
    sys.stdout = printed
    Front(Answers(table), source, printed.wire, target).start()

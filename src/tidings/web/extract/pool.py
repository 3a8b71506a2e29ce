"""Extraction: from bytes to `Extracted`, in processes that can be killed, so that no page can harm the server.

`READERS` has a reader for each content type; a wrong label is corrected by the content (`sniff.py`). `answer` runs in
the child. Jobs are pickled, because the server is trusted. Answers are JSON and become one of four types, because the
child reads untrusted content: nothing in an answer can run code here.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib import import_module
from typing import Any, Self, cast

from tidings._kit.decompress import Corrupt, OverLimit, gunzip, is_gzip
from tidings._kit.pool import WorkerFailed, WorkerPool
from tidings._kit.worker import LastAnswer, WorkerLimits
from tidings.web.extract import model, sniff
from tidings.web.extract.html.selectors import BadSelector
from tidings.web.extract.model import Extracted, ExtractionFailed, ExtractOptions, ExtractWarning, Unsupported

Reader = Callable[[bytes, str | None, str, ExtractOptions], Extracted]  # Body, charset or None, URL, options.

_TYPES_OF_READERS = {
    "html.read:read_html": "text/html application/xhtml+xml",
    "pdf:read_pdf": "application/pdf application/x-pdf",
    "feeds:read_feed": "application/rss+xml application/atom+xml application/rdf+xml",
    "data:read_json": (
        "application/json text/json *+json application/x-ndjson application/ndjson application/jsonl "
        "application/json-lines"
    ),
    "xml:read_xml": "application/xml text/xml *+xml",
    "data:read_csv": "text/csv application/csv text/tab-separated-values",
    "text:read_markdown": "text/markdown text/x-markdown",
    "text:read_text": "text/plain",
    "text:read_code": (
        "application/javascript application/x-javascript application/yaml application/x-yaml application/toml "
        "application/sql application/x-sh text/*"
    ),
}
# Content type to `module:function` of this package, imported for the first body of the type. `*+json` and `*+xml` match
# the types that end so, `text/*` all other text.
READERS = {kind: reader for reader, kinds in _TYPES_OF_READERS.items() for kind in kinds.split()}

_NEVER = ("image/", "audio/", "video/", "font/", "model/")


def extract(body: bytes, content_type: str, url: str, options: ExtractOptions | None = None) -> Extracted:
    """Reads `body` as what it really is. Raises `Unsupported` if there is no reader, or `ExtractionFailed`."""
    options = options or ExtractOptions()
    label, _, parameters = content_type.partition(";")
    label = label.partition(",")[0].strip().lower()
    label = label if "/" in label else ""
    if label.startswith(_NEVER):
        raise Unsupported(label)
    if is_gzip(body):
        limit = options.caps.unpacked
        try:
            body = gunzip(body, limit, keep_beginning=True)
        except OverLimit as error:
            message = f"The body decompresses to more than {limit:,} bytes: ask for it as raw."
            raise ExtractionFailed("bomb", message) from error
        except Corrupt as error:
            message = "The body begins as gzip and cannot be decompressed: ask for it as raw, or fetch it again."
            raise ExtractionFailed("broken", message) from error
        label = "" if label in sniff.PACKED else label
    kind, charset = sniff.truly(body, label, url), _charset(parameters)
    found = _reader(kind)(body, charset, url, options)
    if options.part:
        from tidings.web.extract.part import narrowed  # noqa: PLC0415 - with lxml, which few readers need

        return narrowed(found, body, charset, options)
    # A label that is only less precise than the truth is not wrong.
    close = label == kind or label in sniff.GENERIC or label == "text/plain" or {label, kind} <= sniff.MARKUP
    if not (close or found.entries or READERS.get(label) == READERS.get(kind)):
        warning = ExtractWarning("extraction_fallback", f"it was sent as {label}, and read as the {kind} that it is")
        found = replace(found, warnings=(*found.warnings, warning))
    return found


def _reader(kind: str) -> Reader:
    written = READERS.get(kind)
    if written is None and not kind.startswith(_NEVER):
        family, _, rest = kind.partition("/")
        written = READERS.get(f"*+{rest.rpartition('+')[2]}" if "+" in rest else "") or READERS.get(f"{family}/*")
    if written is None:
        raise Unsupported(kind)
    module, _, name = written.partition(":")
    return cast("Reader", getattr(import_module(f"tidings.web.extract.{module}"), name))


def _charset(parameters: str) -> str | None:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return value.partition(",")[0].strip().strip("\"'") or None
    return None


Job = tuple[bytes, str, str, ExtractOptions]  # Body, content type, URL, options.
Failure = Unsupported | ExtractionFailed | BadSelector


class ExtractionPool:
    """Processes that extract text, from entering this until leaving it.

    By default there is one for each core, at most 4. A job has `timeout` seconds once a process works on it, and may
    `wait` for a free one. A process has `memory` bytes where the system can limit it (Linux), and ends after so many
    `jobs` or `idle` seconds.
    """

    def __init__(
        self,
        *,
        count: int = 0,
        timeout: float = 20.0,
        memory: int = 1024**3,
        wait: float = 60.0,
        jobs: int = 500,
        idle: float = 120.0,
    ) -> None:
        self._timeout = timeout
        self._wait = wait
        limits = WorkerLimits(seconds=timeout, memory=memory, jobs=jobs, idle=idle, warm_up=f"{__name__}:warm_up")
        self._pool = WorkerPool(f"{__name__}:answer", decoded_outcome, count=count, limits=limits, wait=wait)

    async def __aenter__(self) -> Self:
        await self._pool.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._pool.__aexit__(*exception)

    @property
    def pids(self) -> frozenset[int]:
        """The ids of the processes."""
        return self._pool.pids

    async def extract(
        self, body: bytes, content_type: str, url: str, options: ExtractOptions | None = None
    ) -> Extracted:
        """Returns the same as `extract`, from another process. Raises the types of `Failure`."""
        try:
            outcome = await self._pool.ask((body, content_type, url, options or ExtractOptions()))
        except WorkerFailed as failure:
            count = self._pool.count
            messages = {
                "start": f"No process that reads pages can be started: {failure}.",
                "busy": f"All {count} processes that read pages were busy for {self._wait:g} s: try again later.",
                "timeout": f"Reading it took longer than {self._timeout:g} s and was stopped: ask for it as raw.",
                "crash": f"The process that read it crashed ({failure}), which a bomb can cause: ask for it as raw.",
                "stopped": "The server is stopping.",
            }
            kind = "crash" if failure.kind == "start" else failure.kind
            raise ExtractionFailed(kind, messages[failure.kind]) from failure
        if isinstance(outcome, Extracted):
            return outcome
        raise outcome


def warm_up() -> None:
    """Prepares the process for its first job: loading the learned model is most of the start."""
    from tidings.web.extract.html import choose, read  # noqa: PLC0415 - with lxml, which only workers need

    choose.model()
    read.read_html(b"<p>ready</p>", None, "", ExtractOptions())


def answer(job: Job) -> bytes:
    """Answers a job. After one that ran out of memory the process ends."""
    try:
        return encoded_outcome(extract(*job))
    except (Unsupported, ExtractionFailed, BadSelector) as error:
        return encoded_outcome(error)
    except MemoryError:
        message = "Reading it takes more memory than is allowed: ask for it as raw."
        return LastAnswer(encoded_outcome(ExtractionFailed("memory", message)))
    except RecursionError:
        return encoded_outcome(ExtractionFailed("bomb", "It is nested too deep to be read: ask for it as raw."))
    except Exception as error:  # noqa: BLE001 - untrusted content may cause any error in a reader
        kind = job[1].partition(";")[0].strip() or "a body without a type"
        message = f"It cannot be read as {kind} ({type(error).__name__}): ask for it as raw."
        return encoded_outcome(ExtractionFailed("broken", message))


_FAILURES = {"unsupported": Unsupported, "failed": ExtractionFailed, "selector": BadSelector}


def encoded_outcome(outcome: Extracted | Failure) -> bytes:
    """Returns an outcome as JSON."""
    match outcome:
        case Extracted():
            said: list[Any] = ["found", asdict(outcome)]
        case Unsupported():
            said = ["unsupported", outcome.content_type]
        case ExtractionFailed():
            said = ["failed", outcome.kind, str(outcome)]
        case BadSelector():
            said = ["selector", outcome.selector]
    text = json.dumps(said, ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError:  # Lone surrogates, which JSON on a page can contain.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def decoded_outcome(content: bytes) -> Extracted | Failure:
    """Returns the outcome in JSON. Raises ValueError if it is not one."""
    try:
        name, *said = cast("list[Any]", json.loads(content))
        if name != "found":
            return _FAILURES[name](*map(str, said))
        (found,) = said
        found["warnings"] = tuple(ExtractWarning(**one) for one in found["warnings"])
        found["entries"] = tuple(model.FeedEntry(**one) for one in found["entries"])
        found["hidden"] = tuple(found["hidden"])
        found["concealed"] = tuple((int(start), int(end)) for start, end in found["concealed"])
        return Extracted(**found)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("not an answer") from error

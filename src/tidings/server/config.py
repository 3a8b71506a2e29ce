"""The settings of a live server as values, and the checks of options where they are given."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any, Literal, cast

from mcp.shared.uri_template import UriTemplate

from tidings._kit.backoff import Backoff
from tidings.bus.streams import Retention
from tidings.changes import check_subscription


@dataclass(frozen=True, slots=True)
class Coalesce:
    """Merges changes that follow each other quickly. Each resource and each list is merged separately.

    Every change is stored in the log at once, and the first is also sent at once. Changes within the next `window`
    seconds are held back and merged. They are sent after `window` seconds without another change, or `max_wait` seconds
    after the first change that was held back, whichever comes first. A window of 0 turns merging off.
    """

    window: float = 0.01
    max_wait: float = 0.1

    def __post_init__(self) -> None:
        _check_numbers(self, above_zero=False)
        if not 0 <= self.window <= self.max_wait < float("inf"):
            default = fields(self)[1].default
            hint = f" (max_wait is {default} unless given: pass a longer one too)" if self.max_wait == default else ""
            raise ValueError(
                f"Coalesce needs 0 <= window <= max_wait (seconds), "
                f"not window={self.window}, max_wait={self.max_wait}{hint}"
            )


CoalesceSetting = Coalesce | Mapping[str, Coalesce]
"""One rule for all, or one for each URI pattern (a URI, a prefix ending in `*`, a template): the first match wins."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the subscribers of one server process, and on the time that it waits for slow readers."""

    streams: int = 20_000
    """Subscribers at the same time: listen streams and legacy sessions together."""
    streams_per_client: int = 2_000
    """Subscribers of one client at the same time. A client is a signed-in user, or a network address (for IPv6, a
    network), or all pipes. It gets the same share of `sessions` and `memory`, and never more than is still free."""
    memory: int = 1_000_000_000
    """Bytes of memory that all streams, sessions and subscriptions may use together."""
    subscriptions: int = 10_000
    """URIs and prefixes that one stream or one legacy session may subscribe to."""
    backlog: int = 4_096
    """Distinct changes that may wait for one subscriber. Only a subscriber with prefixes can exceed this: others have
    at most one waiting change for each subscription."""
    write_deadline: float = 30.0
    """Seconds that a reader may go without reading before its stream is cut off."""
    liveness: float = 60.0
    """Seconds for which a legacy session without an open stream still counts as a subscriber. Also the seconds after
    which a network peer that acknowledges nothing is considered dead."""
    permission: float = 30.0
    """Seconds for which an answer of `authorize` is valid. Later, it is called again before the next notification."""
    sessions: int = 10_000
    """Legacy sessions over streamable HTTP at the same time. More are refused with HTTP 503."""
    session_idle: float = 1_800.0
    """A legacy session over streamable HTTP ends after this many seconds without a request or an open stream."""

    without_bus: float = 10.0
    """Seconds for which a server continues when it cannot reach its bus. After that, it ends its streams and accepts no
    new ones until the bus is back, because its subscribers would miss changes without knowing."""

    def __post_init__(self) -> None:
        _check_numbers(self)


@dataclass(frozen=True, slots=True)
class Waking:
    """Settings for the tool `wait_for_change`, and for tools that run as tasks. Times are in seconds.

    A client that declares the tasks extension gets a task, which lasts until something changes. Calls of other clients
    are answered within `longest_call`.
    """

    longest_call: float = 25.0
    """The longest wait of a call that is not a task. Some hosts give up after 60 seconds."""
    longest_task: float = 43_200.0
    """The longest life of a task. A wait then completes, and reports that nothing has changed. A tool that is still
    running is stopped."""
    quiet: float = 1.0
    """Changes are reported together after this time without another one, because each report costs a model's turn."""
    longest_quiet: float = 5.0
    """The longest time after the first change before they are reported, even if more follow."""
    poll: float = 1.0
    """The interval at which clients are asked to poll a task."""
    keep: float = 86_400.0
    """The time that a result is kept: after the time limit of a wait, or after the end of a tool."""
    waits_per_client: int = 100
    """Waits of one client at the same time. A client is a signed-in user, or a network address, or all pipes."""
    running_per_client: int = 50
    """Tools that run as tasks for one client at the same time. Each process counts separately."""
    hints: bool = False
    """Append "changed since you last read" to the results of other tools, once for each change."""

    def __post_init__(self) -> None:
        _check_numbers(self, endless=False)
        if self.quiet > self.longest_quiet:
            raise ValueError(f"Waking needs quiet <= longest_quiet, not {self.quiet} and {self.longest_quiet}")


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Settings for the webhooks of MCP Events. Times are in seconds."""

    per_client: int = 100
    """Subscriptions that one signed-in user may have."""
    longest: float = 86_400.0
    """The time for which a subscription is granted, unless its subscriber asks for less."""
    timeout: float = 10.0
    """The time limit for a receiver's answer."""
    retries: Sequence[float] = (5.0, 30.0, 120.0, 600.0)
    """The pauses before each retry of a delivery, plus or minus a fifth. After the last retry, delivery is parked."""
    lease: float = 10.0
    """The time after which another replica takes over the deliveries of a replica that was killed."""
    local: bool = False
    """For development: permits plain HTTP, receivers on this machine, and subscribers who have not signed in."""

    def __post_init__(self) -> None:
        _check_numbers(self, endless=False)
        Backoff(self.retries)


@dataclass(frozen=True, slots=True)
class Events:
    """Settings for MCP Events. Times are in seconds."""

    retention: Retention = Retention()  # noqa: RUF009 - a frozen value
    """The events that are kept of each type, unless its declaration sets its own `retention`."""
    longest_poll: float = 25.0
    """The longest wait of a poll. Some hosts give up after 60 seconds."""
    poll: float = 1.0
    """The interval at which clients are asked to poll."""
    error_codes: Literal["sketch", "sep-3415"] = "sketch"
    """The numeric error codes to use: those that ChatGPT documents, or those of SEP-3415."""
    webhooks: Webhooks = field(default_factory=Webhooks)

    def __post_init__(self) -> None:
        _check_numbers(self, endless=False)


def _check_numbers(settings: Any, *, above_zero: bool = True, endless: bool = True) -> None:
    """Raises `TypeError` or `ValueError` if a field that has to be a number is none, or is out of range."""
    for each in fields(settings):
        value: Any = getattr(settings, each.name)
        if not isinstance(each.default, bool | int | float):
            continue
        is_flag = isinstance(each.default, bool)
        if isinstance(value, bool) is not is_flag or not issubclass(type(value), Real):
            needed = "True or False" if is_flag else "a number"
            raise TypeError(
                f"{type(settings).__name__} needs {needed} for {each.name}, not {type(value).__name__} {value!r}"
            )
        if above_zero and not is_flag and not (value > 0 and (endless or value < float("inf"))):
            raise ValueError(f"{type(settings).__name__} needs {each.name} > 0, not {value}")


class UriPattern:
    """Matches URIs by a URI, a prefix that ends in `*`, or a template such as `feed://{id}`.

    It matches subscriptions, too: the prefix `feed://*` matches the template `feed://{id}` with `id="*"`. Templates
    match as the SDK's resource templates do.
    """

    def __init__(self, text: object) -> None:
        if not isinstance(text, str):
            raise TypeError(
                f"A pattern is a string (a URI, a prefix ending in '*', or a template such as 'note://{{id}}'), "
                f"not {type(text).__name__}"
            )
        self.text = text
        self._template: UriTemplate | None = None
        if "{" in text:  # No URI has one: an incomplete template is a mistake, not a URI that matches nothing.
            try:
                self._template = UriTemplate.parse(text)
            except ValueError as error:
                raise ValueError(f"{text!r} is not a URI template: {error}") from error
        else:
            check_subscription(text)
        parsed = self._template
        self.variables = list(parsed.variable_names) if parsed else list[str]()  # `match` returns their values.
        # Those of its query, which a URI may leave out.
        self.optional = frozenset(parsed.query_variable_names) if parsed else frozenset[str]()

    def match(self, uri: str) -> dict[str, str | list[str]] | None:
        """Returns the values of the template's variables in `uri` (none for a URI or a prefix); None if it differs."""
        if self._template is not None:
            return self._template.match(uri)
        if uri == self.text or (self.text.endswith("*") and uri.startswith(self.text[:-1])):
            return {}
        return None

    def covers(self, subscription: str) -> bool:
        """Returns whether this matches everything that `subscription` wants: for a prefix, only a prefix can."""
        if subscription.endswith("*") and self._template is not None:
            return False
        return self.match(subscription) is not None


def check_options(
    *,
    bus: object,
    coalesce: object,
    limits: object,
    authorize: object,
    subscribable: object,
    waking: object,
    events: object,
) -> None:
    """Raises `TypeError` or `ValueError` if an option of `attach()` or `LiveServer` is not valid."""
    is_bus = all(callable(getattr(bus, method, None)) for method in ("publish", "subscribe", "since"))
    if bus is not None and (isinstance(bus, type) or not is_bus):
        found = f"the class {bus.__name__}" if isinstance(bus, type) and is_bus else _kind(bus)
        raise TypeError(f"bus is {found}: pass a bus object, e.g. SqliteBus(path) or MemoryBus()")
    _check_coalesce(coalesce)
    if not isinstance(limits, Limits):
        raise TypeError(f"limits must be a Limits, e.g. Limits(streams=100), not {_kind(limits)}")
    if authorize is not None and not callable(authorize):
        raise TypeError(f"authorize must be a function, 'def authorize(ctx, uri) -> bool', not {_kind(authorize)}")
    if authorize is not None and (problem := _misfit(authorize, None, "")):
        raise TypeError(
            f"authorize is called with the request's context and the URI: write 'def authorize(ctx, uri)'. "
            f"This function does not fit: {problem}"
        )
    if waking is not None and not isinstance(waking, Waking):
        raise TypeError(f"waking must be a Waking, e.g. Waking(quiet=2), or None to turn it off, not {_kind(waking)}")
    if events is not None and not isinstance(events, Events):
        raise TypeError(f"events must be an Events, e.g. Events(poll=2), or None to turn it off, not {_kind(events)}")
    if isinstance(subscribable, str):
        raise TypeError(f"subscribable must be a list of strings: pass [{subscribable!r}], not {subscribable!r}")
    if subscribable is not None and not isinstance(subscribable, Collection):
        raise TypeError(f"subscribable must be a list of URIs, prefixes and templates, not {_kind(subscribable)}")


def check_hook(name: str, pattern: UriPattern, hook: object) -> None:
    """Raises `TypeError` if `hook` cannot be called with the variables of `pattern`."""
    if not callable(hook):
        raise TypeError(f"{name} decorates a function, not {_kind(hook)}")
    always = {"uri"} if takes_uri(hook) else set[str]()
    problem = _misfit(hook, **dict.fromkeys(always.union(pattern.variables)))
    if problem is None and pattern.optional:
        problem = _misfit(hook, **dict.fromkeys(always.union(pattern.variables) - pattern.optional))
    if problem is not None:
        wanted = ", ".join(f"{name}=..." if name in pattern.optional else name for name in pattern.variables)
        raise TypeError(
            f"{name}({pattern.text!r}) calls its function with the template's variables by name: write "
            f"'def {getattr(hook, '__name__', 'hook')}({wanted})'. This function does not fit: {problem}"
        )


def takes_uri(hook: Callable[..., object]) -> bool:
    """Returns whether `hook` has a parameter named `uri`."""
    signature = _signature(hook)
    return signature is not None and "uri" in signature.parameters


def _check_coalesce(coalesce: object) -> None:
    if isinstance(coalesce, Coalesce):
        return
    if not isinstance(coalesce, Mapping):
        raise TypeError(
            f"coalesce must be a Coalesce, e.g. Coalesce(window=0.05), or a mapping of URI patterns to them, "
            f"not {_kind(coalesce)}"
        )
    for text, rule in cast("Mapping[object, object]", coalesce).items():
        UriPattern(text)
        if not isinstance(rule, Coalesce):
            raise TypeError(f"coalesce[{text!r}] must be a Coalesce, e.g. Coalesce(window=0.05), not {_kind(rule)}")


def _signature(call: Callable[..., object]) -> inspect.Signature | None:
    try:
        return inspect.signature(call)
    except (TypeError, ValueError):
        return None  # Some built-in functions have none.


def _misfit(call: Callable[..., object], *arguments: Any, **named: Any) -> str | None:
    """Returns why `call` cannot be called like this; None if it can, or has no signature."""
    if (signature := _signature(call)) is None:
        return None
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        return str(error)
    return None


def _kind(value: object) -> str:
    """Returns the type of `value`, with the value itself where that is short."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    return f"{kind} {value!r}" if isinstance(value, str | int | float) and len(repr(value)) <= 60 else kind

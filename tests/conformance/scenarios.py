"""The server scenarios of each pinned suite and the spec versions each is for.

A test compares this table with what the suites themselves list, so a scenario that is new cannot be missed.
"""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from tests.conformance import suite

SCENARIO_MILLISECONDS = 20_000

OWN = "own"
"""The old suite takes no spec version: each of its scenarios speaks the version it is about."""

EXTENSION = "extension"
"""How the suite marks a scenario of an extension instead of naming spec versions."""

_TOOLS = """tools-list tools-call-simple-text tools-call-image tools-call-audio tools-call-embedded-resource
    tools-call-mixed-content tools-call-error tools-call-with-progress"""
_RESOURCES = "resources-list resources-read-text resources-read-binary resources-templates-read"
_PROMPTS = """prompts-list prompts-get-simple prompts-get-with-args prompts-get-embedded-resource
    prompts-get-with-image"""
_BOTH_ERAS = f"completion-complete {_TOOLS} {_RESOURCES} {_PROMPTS}"
_HANDSHAKE = """server-initialize logging-set-level ping tools-call-with-logging tools-call-sampling
    tools-call-elicitation resources-subscribe resources-unsubscribe"""
_LAST_HANDSHAKE = "elicitation-sep1034-defaults elicitation-sep1330-enums server-sse-polling"
_INPUT = """basic-elicitation basic-sampling basic-list-roots request-state multiple-input-requests multi-round
    missing-input-response non-tool-request result-type unsupported-methods tampered-state capability-check
    ignore-extra-params validate-input"""
_MODERN = """server-stateless sep-2164-resource-not-found caching http-header-validation
    http-custom-header-server-validation"""
_LATE_IN_BOTH = "json-schema-2020-12 server-sse-multiple-streams dns-rebinding-protection"
_TASKS = """lifecycle capability-negotiation wire-fields request-state-removal mrtr-input request-headers
    dispatch-and-envelope status-notifications required-task-error mrtr-composition"""
_SKILLS = "directory enumeration manifest"


def _named(names: str, *specs: str, prefix: str = "") -> dict[str, tuple[str, ...]]:
    return {prefix + name: specs for name in names.split()}


SCENARIOS: dict[str, dict[str, tuple[str, ...]]] = {
    suite.OLD: {
        **_named(f"{_BOTH_ERAS} {_HANDSHAKE}", "2025-06-18", "2025-11-25"),
        **_named(f"{_LAST_HANDSHAKE} {_LATE_IN_BOTH}", "2025-11-25"),
    },
    suite.NEW: {
        **_named("server-session-lifecycle", "2025-03-26", "2025-06-18", "2025-11-25"),
        **_named(_HANDSHAKE, "2025-06-18", "2025-11-25"),
        **_named(_LAST_HANDSHAKE, "2025-11-25"),
        **_named(_BOTH_ERAS, "2025-06-18", "2025-11-25", "2026-07-28"),
        **_named(_LATE_IN_BOTH, "2025-11-25", "2026-07-28"),
        **_named(_MODERN, "2026-07-28"),
        **_named(_INPUT, "2026-07-28", prefix="input-required-result-"),
        **_named(_TASKS, EXTENSION, prefix="tasks-"),
        **_named(_SKILLS, EXTENSION, prefix="sep-2640-skills-"),
    },
}


class Case(NamedTuple):
    """A scenario of one version of the suite, spoken in one spec version."""

    version: str
    name: str
    spec: str

    def __str__(self) -> str:
        return "/".join(self)


class Batch(NamedTuple):
    """What one node process works through: the options select its scenarios."""

    version: str
    spec: str
    selection: tuple[str, ...]


def cases() -> Iterator[Case]:
    for version, scenarios in SCENARIOS.items():
        for name, specs in scenarios.items():
            for spec in specs if version == suite.NEW else (OWN,):
                yield Case(version, name, spec)


def batches() -> Iterator[Batch]:
    """As few processes as the suite allows: it takes all scenarios of a spec version at once, extensions singly."""
    bound = ("--timeout", str(SCENARIO_MILLISECONDS))
    specs = set(chain.from_iterable(SCENARIOS[suite.NEW].values())) - {EXTENSION}
    for spec in sorted(specs, reverse=True):  # The newest takes longest.
        yield Batch(suite.NEW, spec, ("--suite", "all", "--spec-version", spec, *bound))
    yield Batch(suite.OLD, OWN, ("--suite", "all"))
    for name, marks in SCENARIOS[suite.NEW].items():
        if EXTENSION in marks:
            yield Batch(suite.NEW, EXTENSION, ("--scenario", name, *bound))

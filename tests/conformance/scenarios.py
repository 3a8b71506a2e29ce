"""The scenarios of each pinned suite, for servers and for clients, and the spec versions each is for.

Tests compare these tables with what the suites themselves list, so a scenario that is new cannot be missed.
"""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from tests.conformance import suite

SERVER_MILLISECONDS = 20_000
CLIENT_MILLISECONDS = 60_000
"""For one scenario. One with a client includes the wait for its turn in the nursery."""

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


_SIGN_IN = """metadata-default metadata-var1 metadata-var2 metadata-var3 basic-cimd scope-from-www-authenticate
    scope-from-scopes-supported scope-omitted-when-undefined scope-step-up scope-retry-limit pre-registration"""
_SIGN_IN_TOKENS = "token-endpoint-auth-basic token-endpoint-auth-post token-endpoint-auth-none"
_SIGN_IN_OLDEST = "2025-03-26-oauth-metadata-backcompat 2025-03-26-oauth-endpoint-fallback"
_SIGN_IN_DRAFT = "resource-mismatch offline-access-scope offline-access-not-supported"
_SIGN_IN_MODERN = """authorization-server-migration iss-supported iss-not-advertised iss-supported-missing
    iss-wrong-issuer iss-unexpected iss-normalized metadata-issuer-mismatch"""
_SIGN_IN_EXTENSIONS = "client-credentials-jwt client-credentials-basic"
_SIGN_IN_NEW_EXTENSIONS = "enterprise-managed-authorization dpop dpop-nonce wif-jwt-bearer"
_CLIENT_MODERN = """request-metadata sep-2322-client-request-state http-standard-headers http-custom-headers
    http-invalid-tool-headers json-schema-ref-no-deref"""
_CLIENT_SKILLS = "no-prefetch verify-digest verify-size verify-frontmatter"


def _named(names: str, *specs: str, prefix: str = "") -> dict[str, tuple[str, ...]]:
    return {prefix + name: specs for name in names.split()}


Table = dict[str, dict[str, tuple[str, ...]]]
"""By version of the suite and name of the scenario: the spec versions."""

SERVER: Table = {
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

CLIENT: Table = {
    suite.OLD: {
        **_named("initialize tools_call", "2025-06-18", "2025-11-25"),
        **_named("elicitation-sep1034-client-defaults sse-retry", "2025-11-25"),
        **_named(_SIGN_IN, "2025-11-25", prefix="auth/"),
        **_named(_SIGN_IN_TOKENS, "2025-06-18", "2025-11-25", prefix="auth/"),
        **_named(_SIGN_IN_OLDEST, "2025-03-26", prefix="auth/"),
        **_named(_SIGN_IN_DRAFT, "draft", prefix="auth/"),
        **_named(f"{_SIGN_IN_EXTENSIONS} cross-app-access-complete-flow", EXTENSION, prefix="auth/"),
    },
    suite.NEW: {
        **_named("initialize", "2025-06-18", "2025-11-25"),
        **_named("tools_call", "2025-06-18", "2025-11-25", "2026-07-28"),
        **_named("elicitation-sep1034-client-defaults sse-retry", "2025-11-25"),
        **_named("json-schema-2020-12-preservation", "2025-11-25", "2026-07-28"),
        **_named(_CLIENT_MODERN, "2026-07-28"),
        **_named(_SIGN_IN, "2025-11-25", "2026-07-28", prefix="auth/"),
        **_named(_SIGN_IN_TOKENS, "2025-06-18", "2025-11-25", "2026-07-28", prefix="auth/"),
        **_named(_SIGN_IN_OLDEST, "2025-03-26", prefix="auth/"),
        **_named(f"{_SIGN_IN_DRAFT} {_SIGN_IN_MODERN}", "2026-07-28", prefix="auth/"),
        **_named(f"{_SIGN_IN_EXTENSIONS} {_SIGN_IN_NEW_EXTENSIONS}", EXTENSION, prefix="auth/"),
        **_named(_CLIENT_SKILLS, EXTENSION, prefix="sep-2640-client-"),
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


def cases(table: Table) -> Iterator[Case]:
    for version, scenarios in table.items():
        for name, specs in scenarios.items():
            for spec in specs if version == suite.NEW else (OWN,):
                yield Case(version, name, spec)


def batches(table: Table) -> Iterator[Batch]:
    """As few processes as the suite allows: it takes all scenarios of a spec version at once, extensions singly."""
    bound = ("--timeout", str(CLIENT_MILLISECONDS if table is CLIENT else SERVER_MILLISECONDS))
    specs = set(chain.from_iterable(table[suite.NEW].values())) - {EXTENSION}
    for spec in sorted(specs, reverse=True):  # The newest takes longest.
        yield Batch(suite.NEW, spec, ("--suite", "all", "--spec-version", spec, *bound))
    yield Batch(suite.OLD, OWN, ("--suite", "all", *(bound if table is CLIENT else ())))  # Its servers have no bound.
    for name, marks in table[suite.NEW].items():
        if EXTENSION in marks:
            yield Batch(suite.NEW, EXTENSION, ("--scenario", name, *bound))
    if table is CLIENT:  # This one measures time: once more, when all is quiet.
        yield Batch(suite.OLD, OWN, ("--scenario", "sse-retry"))

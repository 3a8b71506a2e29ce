"""Scripts and fixed roots answer what a server asks; a bad script is refused with its place and its cure."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp_types import ElicitRequestFormParams, ElicitRequestURLParams, ElicitResult, ListRootsResult

from tests.client.asking import FORM, SAMPLE, URL, Asking, Desk, connected, text
from tidings._kit.lazy import install_command
from tidings.client.pending import ASK, PendingRequest, Responder, refusal
from tidings.client.responders import roots_responder, script_responder

needs_server = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

SAMPLING = PendingRequest("ask-1", "sampling", SAMPLE, "weather")
ROOTS = PendingRequest("ask-2", "roots", None, "weather")
SIGN_IN = PendingRequest("ask-3", "elicitation", ElicitRequestURLParams(message="Sign in, please", url=URL), "vault")


def question(message: str, server: str = "vault") -> PendingRequest:
    request = ElicitRequestFormParams(message=message, requested_schema=FORM.requested_schema)
    return PendingRequest("ask-4", "elicitation", request, server)


@pytest.fixture
def script(tmp_path: Path) -> Any:
    """Makes a responder of the text or the rules of a script."""

    def load(rules: str | list[Any]) -> Responder:
        path = tmp_path / ("answers.yaml" if isinstance(rules, str) else "answers.json")
        path.write_text(rules if isinstance(rules, str) else json.dumps(rules), "utf-8")
        return script_responder(path)

    return load


def test_the_script_in_the_documentation_does_what_it_says(script: Any) -> None:
    guide = Path(__file__).parents[2] / "docs/client.md"
    (example,) = re.findall(r"```yaml\n(- elicitation.*?)```", guide.read_text("utf-8"), re.DOTALL)
    answer = script(example)
    assert answer(question("What is YOUR name?")) == {"name": "Ada", "age": 36}
    assert answer(question("Delete Inbox.md?", server="web")) == ElicitResult(action="decline")
    assert answer(question("Delete Inbox.md?", server="Vault of Ada")) == {}
    assert answer(question("Delete Inbox.md?", server="Vault of Ada")) == ElicitResult(action="decline")
    assert answer(SIGN_IN) == {}
    assert answer(SAMPLING) == "Paris"
    other = SAMPLE.model_copy(update={"messages": []})
    assert answer(PendingRequest("ask-5", "sampling", other)) == refusal("This machine has no model.")
    assert answer(question("An urgent matter")) is ASK
    assert answer(question("What else?")) is ASK
    roots = answer(ROOTS)
    assert [str(root.uri) for root in roots.roots] == [(Path.home() / "notes").as_uri(), "file:///srv/docs"]


def test_json_says_the_same(script: Any) -> None:
    answer = script(
        [
            {"elicitation": "Delete *", "times": 2, "decline": True},
            {"elicitation": "*", "cancel": None},
            {"sampling": "*", "reject": None},
            {"roots": None, "server": "web*", "ask": True},
            {"roots": []},
        ]
    )
    actions = [answer(question("Delete it?")).action for _ in range(3)]
    assert actions == ["decline", "decline", "cancel"]
    assert answer(SAMPLING) == refusal("A script refuses this")
    assert answer(PendingRequest("ask-5", "roots", None, "web")) is ASK
    assert answer(ROOTS) == ListRootsResult(roots=[])


def test_a_rule_accepts_a_url_only_if_it_says_which(script: Any) -> None:
    assert script([{"elicitation": "*", "accept": {}}])(SIGN_IN) is ASK
    assert script([{"elicitation": "*", "url": "https://example.org/*", "accept": {}}])(SIGN_IN) is ASK
    assert script([{"elicitation": "*", "url": "https://example.com/*", "accept": {}}])(question("Well?")) is ASK
    assert script([{"elicitation": "*", "decline": True}])(SIGN_IN) == ElicitResult(action="decline")


@needs_server
@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"], ids=["modern", "legacy"])
async def test_a_server_is_answered_by_a_script(mode: str, script: Any) -> None:
    answer = script(
        """
        - elicitation: "who are you*"
          times: 1
          accept: {name: Ada}
        - elicitation: "*"
          decline:
        - sampling: "*France*"
          reply: Paris
        - roots: [/srv/docs]
        """
    )
    desk = Desk(responder=answer)
    async with connected(Asking(), desk.pending, mode) as client:
        results = [text(await client.call_tool(tool)) for tool in ("greet", "greet", "capital", "where")]
    assert results == ["Ada, 30", "decline", "assistant tidings: Paris", "file:///srv/docs"]


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ({}, "must be a list of rules"),
        ([7], "rule 1 must name the kind of question. Use one of the keys elicitation, sampling, roots"),
        ([{"roots": []}, {"accept": {}}], "rule 2 must name the kind of question"),
        ([{"elicitation": "*", "sampling": "*", "ask": None}], "rule 1 must name the kind of question"),
        (
            [{"sampling": "*", "accept": {}}],
            "has 'accept', which no rule for sampling has. It may have: sampling, reply",
        ),
        ([{"elicitation": "*", "acept": {}}], "has 'acept', which no rule for elicitation has"),
        ([{"roots": [], "url": "*"}], "has 'url', which no rule for roots has"),
        ([{"sampling": "*"}], "must have exactly one answer. Choose from: reply, reject, ask."),
        ([{"elicitation": "*", "accept": {}, "decline": None}], "must have exactly one answer"),
        ([{"roots": []}, {"roots": [], "ask": None}], "rule 2 must have exactly one answer"),
        ([{"roots": None}], "Choose from: reject, ask, or a list of roots"),
        ([{"sampling": None, "ask": None}], "must have a pattern for 'sampling', in quotes"),
        ([{"sampling": ["*"], "ask": None}], "must have a pattern for 'sampling'"),
        ([{"sampling": "*", "server": 7, "ask": None}], "must have a pattern for 'server'"),
        ([{"elicitation": "*", "url": "", "accept": None}], "must have a pattern for 'url'"),
        ([{"elicitation": "*", "url": "*", "accept": {"a": 1}}], "accepts a URL, which has no fields"),
        ([{"sampling": "*", "times": 0, "ask": None}], "a whole number of at least 1 for 'times'"),
        ([{"sampling": "*", "times": True, "ask": None}], "a whole number of at least 1 for 'times'"),
        ([{"sampling": "*", "times": None, "ask": None}], "a whole number of at least 1 for 'times'"),
        ([{"elicitation": "*", "accept": "Ada"}], "an invalid value for 'accept'. Write the fields and their values"),
        ([{"elicitation": "*", "accept": {"a": {"b": 1}}}], "accepts with 'a', which is not a string"),
        ([{"elicitation": "*", "accept": {"a": [1]}}], "accepts with 'a', which is not a string"),
        ([{"sampling": "*", "reply": 42}], "an invalid value for 'reply'. Write a string, in quotes."),
        ([{"sampling": "*", "reject": 42}], "an invalid value for 'reject'. Write the reason"),
        ([{"elicitation": "*", "decline": False}], "an invalid value for 'decline'. Write just: decline:"),
        ([{"sampling": "*", "ask": "me"}], "an invalid value for 'ask'. Write just: ask:"),
        ([{"roots": "~/notes"}], "rule 1: Roots are a list of paths"),
        ([{"roots": ["https://example.com"]}], "rule 1: 'https://example.com' cannot be a root"),
    ],
)
def test_a_bad_rule_is_named_with_its_cure(rules: list[Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "answers.json"
    path.write_text(json.dumps(rules), "utf-8")
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        script_responder(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("answers.json", b"[{", "is not JSON: Expecting property name"),
        ("answers.yaml", b"- sampling: *\n  ask:", "is not YAML. Patterns need quotes."),
        ("answers.yaml", b'- sampling: "*"\n  sampling: "?"\n  ask:', "is not YAML"),
        (
            "answers.yaml",
            b'- elicitation: "*"\n  accept: {day: 2026-07-28}',
            "'day', which is not a string.*dates.*quotes",
        ),
        ("answers.yaml", b"", "must be a list of rules"),
        ("answers.yaml", b"- \xff", "not in UTF-8"),
    ],
)
def test_a_bad_file_is_named_with_its_cure(name: str, content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=words) as caught:
        script_responder(str(tmp_path / name))
    assert name in str(caught.value)


def test_a_script_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"nowhere\.yaml cannot be read \(No such file or directory\): check the path"):
        script_responder(tmp_path / "nowhere.yaml")


def test_without_the_yaml_parser_the_extra_is_named_and_json_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ruamel.yaml", None)
    for name in ("answers.yaml", "answers.json"):
        (tmp_path / name).write_text('[{"sampling": "*", "reply": "Paris"}]', "utf-8")
    with pytest.raises(ValueError, match=re.escape(install_command("inspector"))):
        script_responder(tmp_path / "answers.yaml")
    assert script_responder(tmp_path / "answers.json")(SAMPLING) == "Paris"


def test_fixed_roots_answer_for_roots_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = roots_responder(["notes", tmp_path, "file:///srv"])
    roots: Any = answer(ROOTS)
    assert [str(root.uri) for root in roots.roots] == [
        (tmp_path / "notes").as_uri(),
        tmp_path.as_uri(),
        "file:///srv",
    ]
    assert answer(SAMPLING) is ASK
    for wrong in ("notes", ["ftp://example.com"], [None]):
        with pytest.raises(ValueError, match=r"[Rr]oot"):
            roots_responder(wrong)  # type: ignore[arg-type]

"""`tidings list`, `read`, `prompt`, `info` and `ping`, as people and scripts use them."""

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.running import PROGRAM, WEATHER, environment, free_port, odd, serving, tidings


@pytest.fixture(scope="module")
def http() -> Generator[str]:
    port = free_port()
    with serving(port):
        yield f"http://127.0.0.1:{port}/mcp"


def test_a_list_is_a_table_with_the_names_first() -> None:
    done = tidings("list", odd(), "tools")
    assert done.code == 0
    assert done.out.splitlines()[:2] == ["add    a b     Add two numbers.", "say    [text]  Say it"]
    assert done.err == ""


def test_all_lists_have_headings_and_those_that_are_empty_are_left_out() -> None:
    said = tidings("list", odd()).out
    assert [line for line in said.splitlines() if line.endswith(")")] == ["Tools (6)", "Resources (3)", "Prompts (2)"]
    assert "  note://one  text/plain  The first note." in said
    assert "  ask   city [style]  Ask." in said


def test_one_item_is_shown_in_full() -> None:
    said = tidings("list", odd(), "tools", "add").out
    assert "The second paragraph is not for tables." in said
    assert '"minimum": 1' in said
    assert tidings("list", odd(), "tools", "add", "--json").json["name"] == "add"


def test_a_list_as_json_has_the_keys_of_the_protocol() -> None:
    said = tidings("list", odd("templates"), "--json").json
    assert list(said) == ["tools", "resources", "resourceTemplates", "prompts"]
    assert said["resourceTemplates"] == [{"uriTemplate": "note://{id}", "name": "note"}]
    assert list(tidings("list", odd("templates"), "templates", "--json").json) == ["resourceTemplates"]


def test_the_command_may_stand_after_two_dashes() -> None:
    words = odd("pages").split()
    assert tidings("list", "tools", "--json", "--", *words).json["tools"][0]["name"] == "add"
    assert tidings("read", "note://one", "--", *words).out.startswith("first")
    done = tidings("list", "--")
    assert (done.code, "Give one, for example: --" in done.err) == (2, True)


@pytest.mark.parametrize("form", [("list", "prompts"), ("list", "prompts", "--json")])
def test_what_a_server_lists_wrongly_is_shown_beside_the_rest(form: tuple[str, ...]) -> None:
    done = tidings(form[0], odd("malformed"), "tools", *form[2:])
    assert done.code == 6
    assert "add" in done.out
    assert "inputSchema is missing" in done.err
    assert "bad" in done.err


def test_malformed_items_are_part_of_the_document() -> None:
    said = tidings("list", odd("malformed"), "tools", "--json").json
    assert [each["item"] for each in said["malformed"]] == [{"name": "bad"}, 5]


def test_names_that_a_server_gives_twice_are_told() -> None:
    done = tidings("list", odd("twice"), "tools")
    assert (done.code, done.out.count("add")) == (0, 2)
    assert done.err.strip() == "Several tools have the same name, and clients see only one: add."
    names = [tool["name"] for tool in tidings("list", odd("twice"), "tools", "--json").json["tools"]]
    assert names.count("add") == 2


def test_a_server_at_a_url_is_listed_in_both_eras(http: str) -> None:
    for era in ("auto", "legacy"):
        said = tidings("list", http, "tools", "--json", "--era", era)
        assert [tool["name"] for tool in said.json["tools"]] == ["report", "slow", "greet", "wait_for_change"], said.err
    assert tidings("info", http, "--json").json["transport"] == "http"


def test_a_live_server_is_read_and_prompted() -> None:
    assert tidings("read", WEATHER, "weather://bergen").out == "rain"
    assert tidings("prompt", WEATHER, "ask", "city=Oslo").out == "How is the weather in Oslo? short\n"


def test_a_server_of_a_file_is_found(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    command, *args = odd().split()
    servers = {"odd": {"command": command, "args": args}, "other": {"url": "http://127.0.0.1:9"}}
    file.write_text(json.dumps({"mcpServers": servers}))
    assert tidings("info", f"{file}#odd", "--json").json["serverInfo"]["name"] == "odd"
    done = tidings("info", f"{file}#ood")
    assert (done.code, "Did you mean odd?" in done.err) == (2, True)


def test_a_server_of_the_catalog_is_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "tidings").mkdir()
    command, *args = odd("modern").split()
    servers = {"my odd": {"command": command, "args": args, "tidings": {"era": "legacy"}}}
    (tmp_path / "tidings/servers.json").write_text(json.dumps({"mcpServers": servers}))
    said = tidings("info", "my odd", "--json", XDG_CONFIG_HOME=str(tmp_path)).json
    assert said["era"] == "legacy"
    done = tidings("info", "my-odd", XDG_CONFIG_HOME=str(tmp_path))
    assert (done.code, "Did you mean my odd?" in done.err) == (2, True)


def test_a_resource_is_printed_byte_for_byte_into_a_pipe() -> None:
    assert tidings("read", odd(), "note://one").out == "first \x1b[31mred"
    run = subprocess.run(
        [*PROGRAM, "read", odd(), "bin://dot"], capture_output=True, env=environment(), timeout=60, check=True
    )
    assert run.stdout == b"\x89PNG\x00"
    assert tidings("read", odd(), "note://two").out == "ab"


def test_content_is_written_to_a_file_or_a_folder(tmp_path: Path) -> None:
    assert "Saved 5 bytes" in tidings("read", odd(), "bin://dot", "--output", str(tmp_path / "dot.png")).err
    assert (tmp_path / "dot.png").read_bytes() == b"\x89PNG\x00"
    assert tidings("read", odd(), "note://two", "-o", str(tmp_path)).code == 0
    assert {file.name: file.read_text() for file in tmp_path.glob("*-*")} == {"1-two": "a", "2-b": "b"}
    done = tidings("read", odd(), "note://two", "-o", str(tmp_path / "one"))
    assert (done.code, "2 contents. Give --output a folder" in done.err) == (2, True)
    assert "Cannot write" in tidings("read", odd(), "note://one", "-o", str(tmp_path / "no/where")).err


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("read", "note://onee"), 2, "Did you mean 'note://one'"),
        (("read", "note://broken"), 7, "the disk is full"),
        (("read", "note://shapeless"), 6, '"contents": "text"'),
        (("read", "bin://lie"), 6, "not base64"),
        (("read", " "), 2, "The URI is empty"),
        (("prompt", "akk"), 2, "Did you mean 'ask'"),
        (("prompt", "ask"), 2, "required arguments that are missing: city=…"),
        (("prompt", "ask", "city=x", "stile=y"), 2, "no argument 'stile'. Did you mean 'style'?"),
        (("prompt", "ask", "city"), 2, "Write KEY=VALUE"),
        (("list", "toolz"), 2, "'toolz' is not one of"),
        (("list", "tools", "ad"), 2, "Did you mean 'add'"),
        (("list", "--era", "old"), 2, "'old' is not one of"),
        (("list", "--timeout", "0"), 2, "--timeout"),
        (("list", "--header", "X=1"), 2, "--header is for a server at a URL"),
        (("list", "--token", "hush"), 2, "--token is for a server at a URL"),
        (("list", "--header", "X"), 2, "write NAME=VALUE"),
    ],
)
def test_a_mistake_is_named_with_its_cure(args: tuple[str, ...], code: int, words: str) -> None:
    done = tidings(args[0], odd(), *args[1:])
    assert (done.code, done.out) == (code, "")
    assert words in done.err


@pytest.mark.parametrize(
    ("target", "code", "words"),
    [
        ("http://127.0.0.1:9/mcp", 3, "Error (network): Nothing answers at"),
        ("no-such-program-anywhere", 2, "is not a known server or program"),
        ("ftp://host/mcp", 2, "MCP does not use"),
        ("localhost:8000", 2, "Did you mean http://localhost:8000?"),
        ("", 2, "The target is empty"),
        ("'half", 2, "cannot be split"),
        ("/nowhere/mcp.json#x", 2, "There is no file"),
    ],
)
def test_a_target_that_is_none_is_refused(target: str, code: int, words: str) -> None:
    done = tidings("list", target)
    assert (done.code, done.out) == (code, "")
    assert words in done.err


def test_options_of_a_command_are_nothing_for_a_url() -> None:
    for option in (("--env", "A=1"), ("--cwd", "/")):
        done = tidings("list", "http://127.0.0.1:9/mcp", *option)
        assert (done.code, "is for a command" in done.err) == (2, True)


def test_an_error_as_json_says_whose_fault_it_is() -> None:
    error = tidings("read", odd(), "note://broken", "--json").error
    assert error == {
        "code": "request-failed",
        "exit": 7,
        "who": "the server",
        "message": "the disk is full. Did you mean 'note://one'?",
        "help": "tidings explain request-failed",
        "data": {"rpc_code": -32603, "rpc_message": "the disk is full", "rpc_data": {"disk": "sda"}},
        "payload": {"disk": "sda"},
    }


def test_several_messages_of_a_prompt_are_told_apart() -> None:
    assert tidings("prompt", odd(), "talk").out == "[user]\nHello\n\n[assistant]\nHi\n"


def test_a_prompt_is_sent_unchecked_if_that_is_wanted() -> None:
    assert tidings("prompt", odd(), "talk", "x=1", "--no-check").code == 0


def test_info_tells_who_the_server_is() -> None:
    said = tidings("info", odd()).out
    for words in ("odd 1", "An odd server", "2025-11-25 (legacy era)", "tools (listChanged), resources", "Be odd."):
        assert words in said


def test_ping_answers_as_often_as_it_is_asked() -> None:
    done = tidings("ping", odd("modern"), "--count", "3", "--interval", "0", "--json")
    assert [list(line) for line in done.lines] == [["ms"]] * 3
    assert "odd answered in" in tidings("ping", odd()).out


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    shell = f"{sys.executable} -m tidings list '{odd()}' --json | head -c 1; echo ${{PIPESTATUS[0]}}"
    run = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {shell}"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert run.stderr == ""
    closed = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m tidings list '{odd()}' | true; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    assert (closed.stdout, closed.stderr) == ("141\n", "")


def test_a_bearer_token_reaches_a_url_and_no_command(http: str) -> None:
    done = tidings("list", http, "tools", "-v", TIDINGS_BEARER_TOKEN="hush-hush-456")
    assert done.code == 0
    assert "hush-hush-456" not in done.err + done.out
    assert tidings("list", odd(), TIDINGS_BEARER_TOKEN="hush-hush-456").code == 0


def test_half_a_character_is_written_as_an_escape() -> None:
    done = tidings("list", odd("rows"), "tools", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json["tools"][0]["name"] == "one\ntwo\x9b \ud800"
    assert tidings("list", odd("rows"), "tools").out == "one␊two<U+009B> <U+D800>\n"
    assert tidings("read", odd(), "note://half").out == "half \\ud800"


def test_a_content_that_is_neither_text_nor_binary_is_the_servers_fault() -> None:
    done = tidings("read", odd(), "note://none")
    assert done.code == 6
    assert "neither a text nor a blob" in done.err


def test_a_server_does_not_choose_where_a_file_goes(tmp_path: Path) -> None:
    done = tidings("read", odd(), "bin://evil", "--output", str(tmp_path))
    assert done.code == 0
    assert sorted(file.name for file in tmp_path.iterdir()) == ["1-content", "2-_"]


def test_a_call_whose_server_dies_is_a_lost_connection_and_the_servers_fault() -> None:
    done = tidings("call", odd(), "die", "--json")
    assert (done.code, done.error["code"], done.error["who"]) == (3, "effect-unknown", "the server")


def test_an_output_that_breaks_its_schema_says_at_which_place() -> None:
    done = tidings("call", odd(), "lie", "--json")
    assert done.code == 6
    assert "breaks its own output schema: sum: " in done.error["message"]
    assert done.error["payload"]["structuredContent"] == {"total": 3}


def test_an_answer_that_is_no_message_is_shown() -> None:
    done = tidings("call", odd("no-result"), "add", "a=1", "b=2", "--timeout", "9")
    assert (done.code, "it has neither a result nor an error" in done.err) == (6, True)
    done = tidings("call", odd("no-result"), "add", "a=1", "b=2", "--timeout", "2", "--verbose")
    assert (done.code, "It sent an invalid message: " in done.err) == (5, True)


FILES = {
    "main.py": 'import sys\nfrom mcp.server.mcpserver import MCPServer\nmcp = MCPServer(*sys.argv[1:] or ["main"])\n'
    'if __name__ == "__main__":\n    mcp.run("stdio")\n',
    "object.py": 'from mcp.server.mcpserver import MCPServer as M\nserver = M("object")\nother = M("other")\n',
    "low.py": 'from mcp.server.lowlevel.server import Server\nmcp = Server("low")\n',
    "none.py": "import json\n",
}


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("main.py", "main"),
        ("main.py:mcp", "main"),
        ("object.py", "object"),
        ("object.py:other", "other"),
        ("low.py", "low"),
        ("python main.py given", "given"),
        ("--timeout 20 python -u main.py", "main"),
        ("-- main.py given", "given"),
    ],
)
def test_a_python_file_is_a_server_and_a_command_needs_no_quotes(words: str, name: str, tmp_path: Path) -> None:
    for file, text in FILES.items():
        (tmp_path / file).write_text(text)
    given = [sys.executable if word == "python" else word for word in words.split()]
    flags = [] if "--" in given else ["--json"]
    done = tidings("info", *(["--json"] if "--" in given else []), *given, *flags, cwd=tmp_path)
    assert (done.code, done.json["serverInfo"]["name"]) == (0, name), done.err


def test_a_python_file_without_a_server_says_what_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "none.py").write_text(FILES["none.py"])
    done = tidings("list", "none.py", cwd=tmp_path)
    assert (done.code, "has no server called mcp, server or app, and starts none" in done.err) == (2, True)
    assert "There is no file" in tidings("list", "nothing.py", cwd=tmp_path).err


@pytest.mark.parametrize("words", [("list",), ("watch",)], ids=["at once", "live"])
def test_an_object_that_a_file_lacks_is_the_users_mistake_and_its_servers_are_named(
    words: tuple[str], tmp_path: Path
) -> None:
    text = "from mcp.server.mcpserver import MCPServer\nprint('hello')\nmain = MCPServer('a')\nnumber = 3\n"
    (tmp_path / "my server.py").write_text(text)
    done = tidings(*words, "'my server.py:mian'", *(["a://b"] if words == ("watch",) else []), cwd=tmp_path)
    assert done.code == 2
    meant = f"{tmp_path / 'my server.py'} has no server called mian. Did you mean my server.py:main?"
    assert done.err == f"Error: {meant}\nHelp: tidings explain bad-target\n"


def test_a_number_that_is_none_is_told_with_what_is_expected() -> None:
    for option, expected in {"--timeout": "number of seconds, for example 2.5", "--count": "whole number"}.items():
        done = tidings("watch", odd(), "note://one", option, "5s")
        assert (done.code, f"'5s' is not a valid {expected}." in done.err) == (2, True)


def test_what_follows_a_command_without_quotes_belongs_to_who_takes_it() -> None:
    words = [sys.executable, *odd("modern").split()[1:2]]
    assert tidings("call", *words, "add", "a=1", "b=2").out == "3\n"
    assert tidings("list", *words, "pages", "tools", "--json").json["tools"][0]["name"] == "add"

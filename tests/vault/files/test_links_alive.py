"""No link dies in a move: vaults with every form of link, read before and after by a resolver of their own.

The resolver below shares no code with the package. It reads one link a line, in a few lines, by Obsidian's rules and,
for links in Markdown, by those of other programs, which know only paths from the note.
"""

import json
import posixpath
import random
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from tests.vault.files.test_moving import Known
from tidings.vault.files.outcomes import FileMoved
from tidings.vault.files.paths import BadPath, Vault
from tidings.vault.files.writer import VaultWriter

NAMES = [
    "Plan",
    "plan b",
    "Ünïcode",
    unicodedata.normalize("NFD", "Café"),
    "🎉 party",
    "100% sure",
    "50%20off",
    "It's (really) new",
    "a (b",
    "R&D",
    "x" * 252,
    "v1.2",
    "日本語",
    "Note.md",
    "$5 `code`",
    "_under_ *star"[:7],
    "-dash",
    "a, b; c",
    " lead",
]
FOLDERS = ["", "Work", "Work/Deep down", "Wörk & Spaß", "100%", "a.b"]
WIKI_SAFE = re.compile(r"[^#^|\[\]\\]*")


@cache
def folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()


def obsidian(target: str, source: str, files: list[str]) -> str | None:
    """Resolves a link as Obsidian does."""
    folder = posixpath.dirname(source)
    if target.startswith(("./", "../")):
        wanted, ends = posixpath.normpath(posixpath.join(folder, target)), False
    else:
        wanted, ends = target.lstrip("/"), not target.startswith("/")
    for spelling in (wanted, wanted + ".md"):
        same = [path for path in files if folded(path) == folded(spelling)]
        if same:
            return spelling if spelling in same else same[0]
        if ends and (fits := [path for path in files if folded(path).endswith("/" + folded(spelling))]):
            near = f"{folder}/" if folder else ""
            return min(fits, key=lambda path: (not path.startswith(near), len(path), path))
    return None


def relative(target: str, source: str, files: list[str]) -> str | None:
    """Resolves a link as a program does that knows nothing of a vault."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    return path if path in files else None


def read(line: str) -> tuple[str, str]:
    """Returns the kind and the target of the one link in a line."""
    form, _, written = line.partition(" :: ")
    if form == "canvas":
        return form, written
    if form in ("property", "single"):
        text = json.loads(written) if form == "property" else written.strip("'").replace("''", "'")
        return "wiki", re.split(r"[#|]", text[2:-2])[0].strip()
    if form == "wiki":
        return "wiki", re.split(r"\\?\||#", written.strip("!|[] "))[0]
    found = re.fullmatch(r"!?\[[^\]]*\](?:\(\s*|:\s*)(<[^>]*>|\S+?)(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)?", written)
    assert found, written
    bare = found[1].strip("<>") if found[1].startswith("<") else re.sub(r"\\([()#])", r"\1", found[1])
    return "markdown", unquote(bare.partition("#")[0])


def leads(line: str, source: str, files: list[str]) -> tuple[str | None, str | None]:
    """Returns where a link leads in Obsidian and, if it is in Markdown, elsewhere."""
    kind, target = read(line)
    if kind == "canvas":
        return relative(target, "", files), None
    return obsidian(target, source, files), relative(target, source, files) if kind == "markdown" else None


def spelled(path: str, source: str, pick: random.Random) -> str:
    folder = posixpath.dirname(source) or "."
    away = posixpath.relpath(path, folder)
    ways = [path, away, away if away.startswith("../") else f"./{away}", f"/{path}", posixpath.basename(path)]
    return pick.choice(ways)


def forms(path: str, source: str, pick: random.Random) -> Iterator[str]:
    """Yields lines with one link each to a file, in every form."""

    def wiki() -> str:
        target = spelled(path, source, pick)
        target = target.removesuffix(".md") if pick.random() < 0.7 else target
        return pick.choice([target, target.upper() if target.isascii() else target])

    inner = pick.choice(["", "#Head", "#A#B", "#^block"])
    if WIKI_SAFE.fullmatch(path):
        for shape in ("[[{}{}]]", "[[{}{}|shown]]", "![[{}{}]]", "![[{}{}|100x20]]", "| [[{}{}\\|cell]] |"):
            yield f"wiki :: {shape.format(wiki(), inner)}"
        yield f"property :: {json.dumps(f'[[{wiki()}{inner}]]', ensure_ascii=False)}"
        yield "single :: '[[{}|s]]'".format(wiki().replace("'", "''"))
    encode: Callable[[str], str] = pick.choice([quote, lambda text: re.sub(r"[ %#()]", lambda m: quote(m[0]), text)])
    for shape in ("[x]({}{})", "![x]({}{})", '[x]({}{} "title")', "[x]( {}{} )", "[ref]: {}{}", "[ref]: {}{} 'title'"):
        yield f"markdown :: {shape.format(encode(spelled(path, source, pick)), inner)}"
    angled = re.sub(r"[%<>#]|^ ", lambda m: quote(m[0]), spelled(path, source, pick))
    yield f"markdown :: [x](<{angled}{inner}>)"
    yield f"markdown :: [ref]: <{angled}{inner}>"


def note(lines: list[str]) -> str:
    """Writes a note: links in properties first, each other line a paragraph."""
    held = [line.partition(" :: ")[2] for line in lines if line.startswith(("property", "single"))]
    body = [line.partition(" :: ")[2] for line in lines if line.startswith(("wiki", "markdown"))]
    head = "---\ncreated: {{date}}\nbad: @x\nlinks:\n" + "".join(f"  - {each}\n" for each in held) + "---\n"
    return head + "\n\n".join(body) + "\n"


def lines_of(text: str) -> list[str]:
    head, _, body = text.removeprefix("---\n").partition("\n---\n")
    held = [line[4:] for line in head.split("\n") if line.startswith("  - ")]
    forms = [f"{'single' if each.startswith(chr(39)) else 'property'} :: {each}" for each in held]
    written = [line for line in body.split("\n") if line]
    return [*forms, *(f"{'wiki' if '[[' in line else 'markdown'} :: {line}" for line in written)]


def make(root: Path, pick: random.Random) -> list[str]:
    files = {f"{folder}/{name}.md".lstrip("/") for name in pick.sample(NAMES, 9) for folder in pick.sample(FOLDERS, 1)}
    files |= {
        f"{folder}/{name}".lstrip("/") for name in ("pic 1.png", "Plan.pdf") for folder in pick.sample(FOLDERS, 2)
    }
    files |= {"Work/Plan.md", "Deep/Work/Plan.md", "C#/Sharp #1 [x].md"}
    for path in sorted(files):
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("")
    for path in sorted(files):
        if path.endswith(".md"):
            targets = pick.sample(sorted(files), 3)
            (root / path).write_text(note([line for target in targets for line in forms(target, path, pick)]))
    nodes = [{"type": "file", "file": path} for path in sorted(files)]
    (root / "Board.canvas").write_text(json.dumps({"nodes": nodes}))
    return sorted([*files, "Board.canvas"])


def alive(root: Path, files: list[str]) -> dict[tuple[str, int], tuple[str | None, str | None]]:
    """Returns where each link leads, by its file and its number in it."""
    found: dict[tuple[str, int], tuple[str | None, str | None]] = {}
    for path in files:
        text = (root / path).read_text() if path.endswith((".md", ".canvas")) else ""
        if path.endswith(".canvas"):
            lines = [f"canvas :: {node['file']}" for node in json.loads(text)["nodes"]]
        else:
            lines = lines_of(text) if text else []
        found |= {(path, number): leads(line, path, files) for number, line in enumerate(lines)}
    return found


def moves(files: list[str], pick: random.Random) -> Iterator[tuple[str, str]]:
    notes = [path for path in files if path.endswith(".md")]
    for path in pick.sample(notes, 4):
        name = pick.choice(
            ["New", "Plan", "plan b", "50% (new) 🎊", "It's", unicodedata.normalize("NFD", "Hé"), "y" * 252]
        )
        yield path, f"{pick.choice(['', 'Work', 'New folder', '100%'])}/{name}.md".lstrip("/")
    yield pick.choice([path for path in files if path.endswith(".png")]), "Attic/other pic.png"
    yield "Work", "Old work"
    yield "C#", "Work/C"
    yield "Board.canvas", "Old work/Board.canvas"


@pytest.mark.parametrize("seed", range(3))
def test_every_link_that_was_alive_leads_where_it_led_or_is_named(tmp_path: Path, seed: int) -> None:
    pick = random.Random(seed)
    files = make(tmp_path, pick)
    vault = Vault([tmp_path])
    tried = 0
    for old, new in moves(files, pick):
        if (tmp_path / new).exists() or not (tmp_path / old).exists():
            continue
        tried += 1
        before = alive(tmp_path, files)
        done = VaultWriter(vault).move(old, new, references=Known(vault))
        assert not done.skipped

        def place(path: str | None, old: str = old, new: str = new) -> str | None:
            within = path is not None and (path == old or path.startswith(f"{old}/"))
            return new + path[len(old) :] if path is not None and within else path

        files = sorted(str(place(path)) for path in files)
        after = alive(tmp_path, files)
        named = {each.path: each.why for each in done.unwritten}
        for (source, number), (led, elsewhere) in before.items():
            now = after[(str(place(source)), number)]
            if str(place(source)) in named:
                continue
            assert now[0] == place(led), (old, new, source, number)
            if elsewhere == led:  # Else it leads elsewhere in other programs than in Obsidian, which counts.
                assert now[1] == place(elsewhere), (old, new, source, number)
        assert not named
    assert tried >= 4


@pytest.mark.parametrize(
    "name", ["a#b", "a^b", "a[b", "a]b", "a|b", "a:b", 'a"b', "a\\b", "a*b", "a?b", "a<b", " a", "a "]
)
def test_a_name_that_obsidian_refuses_is_refused_with_the_cure(tmp_path: Path, name: str) -> None:
    (tmp_path / "N.md").write_text("")
    (tmp_path / "A.md").write_text("[[N]]")
    vault = Vault([tmp_path])
    for to in (f"{name}/N.md", f"Folder/{name}"):
        with pytest.raises(BadPath, match=r"Leave|Write"):
            VaultWriter(vault).move("N.md", to, references=Known(vault))
    assert (tmp_path / "A.md").read_text() == "[[N]]"
    assert (tmp_path / "N.md").exists()


def moved(root: Path, text: str, *, old: str, new: str) -> FileMoved:
    (root / "Source.md").write_text(text)
    (root / old).parent.mkdir(parents=True, exist_ok=True)
    (root / old).write_text("")
    vault = Vault([root])
    return VaultWriter(vault).move(old, new, references=Known(vault))


def test_links_that_cannot_be_rewritten_are_all_named(tmp_path: Path) -> None:
    """The folder takes a name along that no wiki link can have; a bracket of the path is closed in the subpath."""
    text = "[[[odd]]]\n\n[x](x(odd#y).md)\n\n[x](<x(odd>)\n"
    done = moved(tmp_path, text, old="Folder/x(odd.md", new="Other/x(odd.md")
    assert done.unwritten == ()
    (tmp_path / "Source.md").unlink()
    done = moved(tmp_path, "one\n[x](N(b#c).md)\n[x](<N(b>)", old="N(b.md", new="New.md")
    assert [each.path for each in done.unwritten] == ["Source.md"]
    assert "[x](N(b#c).md) (line 2) could not be rewritten" in done.unwritten[0].why
    assert "line 3" not in done.unwritten[0].why
    assert (tmp_path / "Source.md").read_text() == "one\n[x](N(b#c).md)\n[x](<New.md>)"


def test_the_resolver_of_these_tests_sees_a_dead_link(tmp_path: Path) -> None:
    (tmp_path / "A.md").write_text(note(["wiki :: [[B]]", "markdown :: [x](B.md)"]))
    (tmp_path / "B.md").write_text("")
    (tmp_path / "C.md").write_text("")
    assert set(alive(tmp_path, ["A.md", "B.md"]).values()) == {("B.md", None), ("B.md", "B.md")}
    assert set(alive(tmp_path, ["A.md", "C.md"]).values()) == {(None, None)}

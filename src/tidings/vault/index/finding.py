"""Which file a user means, and which may have been meant.

May import: `paths`, `query_rows`.
"""

from typing import TYPE_CHECKING

from tidings.vault.files.paths import key
from tidings.vault.index.query_rows import Match

if TYPE_CHECKING:
    from tidings.vault.index.queries import Queries


def find(queries: "Queries", text: str) -> Match | None:
    """See `Queries.find`."""
    written = text.strip().strip("/")
    if exact := queries.file(written):
        return Match(exact, ())
    wanted = key(written)
    name = wanted.rpartition("/")[2]
    paths = {path for each in (name, name.removesuffix(".md")) for path in queries.candidates(each)}
    whole = [path for path in paths if key(path) in (wanted, f"{wanted}.md")]
    ends = [path for path in paths if key(path).endswith((f"/{wanted}", f"/{wanted}.md"))]
    best = sorted(whole, key=lambda path: (path != f"{written}.md", _rank(path)))
    if not best or name == wanted:
        # A bare name may mean any file that has it. A path that is whole means that one.
        best += sorted(ends, key=_rank)
    file = queries.file(best[0]) if best else None
    return Match(file, tuple(best[1:])) if file else None


def near(queries: "Queries", text: str, limit: int) -> list[str]:
    """See `Queries.near`."""
    wanted = key(text.strip().strip("/")).rpartition("/")[2].removesuffix(".md")
    pairs = _pairs(wanted)
    scored: list[tuple[float, int, str]] = []
    for name, path in queries.connection.execute("SELECT name, path FROM files"):
        own = _pairs(name)
        score = 2 * len(pairs & own) / (len(pairs) + len(own))
        if wanted and wanted in name:
            score += 1
        if score >= 0.4:
            scored.append((-score, len(path), path))
    return [path for _, _, path in sorted(scored)[:limit]]


def _rank(path: str) -> tuple[bool, int, int, str]:
    """Notes before other files, then as Obsidian chooses among files of one name: near to the root, a short path."""
    return not key(path).endswith(".md"), path.count("/"), len(path), path


def _pairs(name: str) -> set[str]:
    """The pairs of letters that stand next to each other, the edges included: what names that look alike share."""
    edged = f" {name} "
    return {edged[at : at + 2] for at in range(len(edged) - 1)}

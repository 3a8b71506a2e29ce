"""The prompt that tidies tags: which of them may mean the same, with how many notes each has."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from mcp_types import ContentBlock

from tidings.vault.index.query_rows import TagCount
from tidings.vault.prompts.briefs import bullets, told
from tidings.vault.prompts.tag_variants import alike
from tidings.vault.resources.shapes import NotFound
from tidings.vault.view import View

_GROUPS: Final = 60
_SINGLES: Final = 60


def brief(view: View, tag: str) -> list[ContentBlock]:
    """What to say of the tags, or of those nested in one.

    Raises:
        NotFound: No note has that tag.
    """
    top = view.queries.tag(tag) if tag.strip(" #/") else None
    if tag.strip(" #/") and top is None:
        raise NotFound(f"No note has the tag {tag!r}. Leave it out to look at all tags.")
    every = [each for each in view.queries.tags() if each.notes and (top is None or _is_within(each.key, top.key))]
    about = f"the tags in #{top.shown}" if top else "the tags of my vault"
    return [
        told(
            view,
            f"Help me tidy {about}: {len(every)} in use.",
            _alike(every),
            _spellings(view, {each.key for each in every}),
            _singles(every),
            "Judge which of these really mean the same, and propose which to keep: mostly the one that more notes "
            "have. Show me the whole plan as a table (from, to, how many notes, why) and wait for my yes. Then rename "
            "one by one with the tool `rename_tag`, and tell me which notes it changed.",
        )
    ]


def _is_within(tag: str, top: str) -> bool:
    return tag == top or tag.startswith(f"{top}/")


def _alike(tags: Sequence[TagCount]) -> str:
    known = {tag.key: tag for tag in tags}
    groups = alike({tag.key: tag.notes for tag in tags})
    if not groups:
        return "No two of them look alike."
    lines = [
        f"{', '.join(f'#{known[each].shown} ({known[each].notes})' for each in group.tags)}: {group.why}"
        for group in groups[:_GROUPS]
    ]
    return _section("These look alike (with the number of notes):", lines, len(groups) - _GROUPS)


def _spellings(view: View, tags: set[str]) -> str:
    rows = view.queries.connection.execute(
        "SELECT key, shown, count(DISTINCT file) AS notes FROM tags GROUP BY key, shown ORDER BY key, notes DESC, shown"
    )
    spellings: defaultdict[str, list[str]] = defaultdict(list)
    for tag, shown, notes in rows:
        if tag in tags:
            spellings[tag].append(f"#{shown} ({notes})")
    lines = [", ".join(forms) for forms in spellings.values() if len(forms) > 1]
    heading = "These are one tag each to Obsidian, but written in several ways:"
    return _section(heading, lines[:_GROUPS], len(lines) - _GROUPS) if lines else ""


def _singles(tags: Sequence[TagCount]) -> str:
    names = [f"#{tag.shown}" for tag in tags if tag.notes == 1]
    if not names:
        return ""
    more = f" and {len(names) - _SINGLES} more" if len(names) > _SINGLES else ""
    return f"Only one note has each of these: {', '.join(names[:_SINGLES])}{more}."


def _section(heading: str, lines: list[str], more: int) -> str:
    return f"{heading}\n{bullets([*lines, f'and {more} more'] if more > 0 else lines)}"

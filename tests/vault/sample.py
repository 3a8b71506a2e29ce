"""A vault with one of everything, and how its resources are read."""

import json
from datetime import date
from typing import Any

from tests.vault.shelf import Shelf
from tidings.vault.resources.render import render

PLAN = """---
aliases: [The plan]
status: active
---
# Plan
See [[Ideas]] and [[Nowhere|that]]. #work/plan
- [ ] write
- [x] think
## Later
![[pic.png]]
"""
SAMPLE = {
    "Projects/Plan.md": PLAN,
    "Projects/Ideas.md": "Ideas of #Work, see [the plan](Plan.md).\n",
    "Projects/Old/Done.md": "#work/plan done, [[Plan]]\n",
    "Home.md": "Welcome.\n",
    "pic.png": b"\x89PNG",
    "Projects/Board.canvas": '{"nodes": []}',
    "All.base": "views: []\n",
    "table.csv": "a;b\n",
}
TODAY = date(2026, 1, 31)
LISTS = (
    "vault://recent",
    "vault://stats",
    "vault://tags",
    "vault://structure",
    "vault://folder/Projects",
    "vault://tag/work",
    "vault://backlinks/Projects/Plan.md",
    "vault://search/plan",
)


def text(shelf: Shelf, uri: str) -> str:
    rendered = render(shelf.view(), uri, today=TODAY)
    assert rendered.text is not None
    return rendered.text


def content(shelf: Shelf, uri: str) -> Any:
    rendered = render(shelf.view(), uri, today=TODAY)
    assert rendered.mime_type == "application/json"
    return json.loads(rendered.text or "")

"""What `resources/list` says of a vault."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from mcp.shared.uri_template import UriTemplate
from mcp_types import Resource

from tests.vault.shelf import Shelf
from tidings.server.families import BadCursor
from tidings.vault.resources.addresses import FAMILY
from tidings.vault.resources.listing import PAGE, page
from tidings.vault.resources.render import render

SINGLES = len(FAMILY.singles(0.8))


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(tmp_path)
    yield shelf
    shelf.index.close()


def every(shelf: Shelf) -> list[Resource]:
    found, cursor = page(shelf.view(), None)
    for _ in range(100):
        if cursor is None:
            break
        more, cursor = page(shelf.view(), cursor)
        found += more
    return found


def test_an_empty_vault_lists_the_resources_of_which_there_is_one(shelf: Shelf) -> None:
    resources, cursor = page(shelf.view(), None)

    assert [resource.uri for resource in resources] == snapshot(
        ["vault://recent", "vault://stats", "vault://tags", "vault://hubs", "vault://structure", "vault://history"]
    )
    assert cursor is None
    assert all(resource.title and resource.description and resource.mime_type for resource in resources)


def test_files_are_listed_by_path_with_what_a_client_may_show(shelf: Shelf) -> None:
    shelf.put({"b/My plan.md": "# Plan", "a.png": b"png", "b/Board.canvas": "{}", "All.base": "views:"})

    resources, _ = page(shelf.view(), None)

    shown = [resource.model_dump(mode="json", by_alias=True, exclude_none=True) for resource in resources[SINGLES:]]
    assert shown == snapshot(
        [
            {
                "name": "All.base",
                "title": "All",
                "uri": "vault://attachment/All.base",
                "mimeType": "application/yaml",
                "size": 6,
                "annotations": {"priority": 0.4, "lastModified": "2026-01-01T00:04:00.000Z"},
            },
            {
                "name": "a.png",
                "title": "a.png",
                "uri": "vault://attachment/a.png",
                "mimeType": "image/png",
                "size": 3,
                "annotations": {"priority": 0.2, "lastModified": "2026-01-01T00:02:00.000Z"},
            },
            {
                "name": "b/Board.canvas",
                "title": "Board",
                "uri": "vault://attachment/b/Board.canvas",
                "mimeType": "application/json",
                "size": 2,
                "annotations": {"priority": 0.4, "lastModified": "2026-01-01T00:03:00.000Z"},
            },
            {
                "name": "b/My plan.md",
                "title": "My plan",
                "uri": "vault://note/b/My%20plan.md",
                "mimeType": "text/markdown",
                "size": 6,
                "annotations": {"priority": 0.5, "lastModified": "2026-01-01T00:01:00.000Z"},
            },
        ]
    )


def test_pages_go_on_where_the_last_one_ended_whatever_came_and_went(shelf: Shelf) -> None:
    names = [f"{number:04}.md" for number in range(PAGE + 100)]
    shelf.put(dict.fromkeys(names[:300], ""))
    shelf.put(dict.fromkeys(names[300:], ""))
    first, cursor = page(shelf.view(), None)
    assert len(first) == PAGE
    assert cursor is not None

    shelf.put({"0000a.md": ""})
    shelf.drop("0001.md", first[-1].name)
    rest, end = page(shelf.view(), cursor)

    assert [resource.name for resource in rest] == names[PAGE - SINGLES :]
    assert end is None


def test_a_page_that_is_just_full_is_the_last(shelf: Shelf) -> None:
    shelf.put({f"{number:04}.md": "" for number in range(PAGE - SINGLES)})

    resources, cursor = page(shelf.view(), None)

    assert len(resources) == PAGE
    assert cursor is None


@pytest.mark.parametrize("cursor", ["x", "%%%", "é", "YQ", "YQ==\n", "_w==", "YQ==YQ=="])
def test_a_cursor_that_no_page_gave_is_refused(shelf: Shelf, cursor: str) -> None:
    with pytest.raises(BadCursor, match="Begin again"):
        page(shelf.view(), cursor)


def test_whatever_is_listed_can_be_read_and_matches_a_template(shelf: Shelf) -> None:
    odd = "a b/ü#?%&+=[]{}'\"!$,;@.md"
    shelf.put({odd: "odd", "x.canvas": "{}", "y.base": "a: 1", "z.pdf": b"%PDF", "no ending": b"\0"})
    matchers = [UriTemplate.parse(template.uri_template) for template in FAMILY.templates()]

    for resource in every(shelf):
        rendered = render(shelf.view(), resource.uri)
        assert rendered.mime_type == resource.mime_type
        assert sum(matcher.match(resource.uri) is not None for matcher in matchers) == 1
        if resource.size is not None:
            content = rendered.data if rendered.text is None else rendered.text.encode()
            assert content is not None
            assert len(content) == resource.size


def test_templates_say_what_may_be_asked() -> None:
    assert [template.uri_template for template in FAMILY.templates()] == snapshot(
        [
            "vault://recent{?mode,limit,offset}",
            "vault://stats{?mode}",
            "vault://tags{?mode,limit,offset}",
            "vault://hubs{?limit,offset}",
            "vault://structure{?mode,limit,offset}",
            "vault://history{?mode,limit,offset}",
            "vault://note/{+path}{?mode,limit,offset}",
            "vault://folder/{+path}{?mode,limit,offset}",
            "vault://tag/{+tag}{?mode,limit,offset}",
            "vault://backlinks/{+path}{?mode,limit,offset}",
            "vault://search/{query}{?mode,limit,offset}",
            "vault://daily/{date}{?mode,limit,offset}",
            "vault://weekly/{date}{?mode,limit,offset}",
            "vault://monthly/{date}{?mode,limit,offset}",
            "vault://quarterly/{date}{?mode,limit,offset}",
            "vault://yearly/{date}{?mode,limit,offset}",
            "vault://canvas/{+path}",
            "vault://neighbourhood/{+path}{?depth,limit,offset}",
            "vault://base/{+path}{?view,format,this,limit,offset}",
            "vault://attachment/{+path}",
        ]
    )
    assert all(template.title and template.description for template in FAMILY.templates())

"""The URIs of a vault: what each asks for, what is refused, and that templates and URIs agree."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.uri_template import UriTemplate

from tidings.server.families import BadAddress, ResourceKind
from tidings.vault.resources.addresses import FAMILY, VaultAddress, parse_address

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("vault://recent", VaultAddress("recent", "", None, None, 0)),
        ("vault://recent/", VaultAddress("recent", "", None, None, 0)),
        ("VAULT://Recent?limit=5&mode=full", VaultAddress("recent", "", "full", 5, 0)),
        ("vault://note/Projects/My%20plan.md", VaultAddress("note", "Projects/My plan.md", None, None, 0)),
        ("vault://note/A.md?offset=10&limit=5000", VaultAddress("note", "A.md", None, 5000, 10)),
        ("vault://note/A.md?mode=summary", VaultAddress("note", "A.md", "summary", None, 0)),
        ("vault://note/C#.md", VaultAddress("note", "C#.md", None, None, 0)),
        ("vault://folder", VaultAddress("folder", "", None, None, 0)),
        ("vault://folder/", VaultAddress("folder", "", None, None, 0)),
        ("vault://folder/Projects/", VaultAddress("folder", "Projects", None, None, 0)),
        ("vault://tag/project/alpha", VaultAddress("tag", "project/alpha", None, None, 0)),
        ("vault://tag/%23idea", VaultAddress("tag", "idea", None, None, 0)),
        ("vault://tag/#idea", VaultAddress("tag", "idea", None, None, 0)),
        ("vault://search/a%2Fb%3F%20%22c%20d%22", VaultAddress("search", 'a/b? "c d"', None, None, 0)),
        ("vault://daily/2026-01-31", VaultAddress("daily", "2026-01-31", None, None, 0)),
        ("vault://daily/Today?mode=full", VaultAddress("daily", "today", "full", None, 0)),
        ("vault://attachment/a/b.png", VaultAddress("attachment", "a/b.png", None, None, 0)),
    ],
)
def test_a_uri_says_what_it_asks_for(uri: str, address: VaultAddress) -> None:
    assert parse_address(uri) == address


@pytest.mark.parametrize(
    ("uri", "cause"),
    [
        ("", "There are: vault://recent"),
        ("http://recent", "not a URI of this server"),
        ("vault:recent", "not a URI of this server"),
        ("vault://notes/A.md", r"vault://note/\{path\}, vault://folder/\{path\}, vault://tag/\{tag\}, "),
        ("vault://recent/A.md", "nothing below vault://recent"),
        ("vault://note", r"does not say which. Write vault://note/\{path\}"),
        ("vault://note/", "does not say which"),
        ("vault://tag/%23", "does not say which"),
        ("vault://search/%20", "does not say which"),
        ("vault://note/%ff", "not UTF-8"),
        ("vault://note/\ud800", "not UTF-8"),
        ("vault://daily/31.1.2026", "not a date"),
        ("vault://daily/2026-02-30", "not a date"),
        ("vault://daily/2026-W01", "not a date"),
        ("vault://recent?limit=0", "limit cannot be '0'. Give a whole number from 1 to 1000"),
        ("vault://recent?limit=1001", "from 1 to 1000"),
        ("vault://recent?limit=", "limit cannot be ''"),
        ("vault://recent?limit=²", "whole number"),
        ("vault://recent?offset=-1", "offset cannot be '-1'"),
        ("vault://recent?mode=all", "'summary' or 'full'"),
        ("vault://recent?sort=name", "takes mode, limit and offset, each once"),
        ("vault://recent?limit=1&limit=2", "each once"),
        ("vault://stats?limit=1", "takes mode, each once"),
        ("vault://attachment/a.png?mode=full", "takes no parameters"),
        ("vault://note/What?.md", "as %3F"),
        ("vault://note/A.md?mode=summary&limit=3", "lines of the text"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_with_what_can(uri: str, cause: str) -> None:
    with pytest.raises(BadAddress, match=cause):
        parse_address(uri)


def test_a_list_has_a_page_and_a_text_has_no_end_unless_it_is_said() -> None:
    assert parse_address("vault://recent").page == 20
    assert parse_address("vault://recent?limit=3").page == 3
    assert parse_address("vault://note/A.md").page is None


@given(
    st.sampled_from(["note", "folder", "backlinks", "attachment", "tag", "search"]),
    TEXTS,
    st.sampled_from([None, "full"]),
    st.none() | st.integers(1, 1000),
    st.integers(0, 5000),
)
def test_an_address_survives_being_written(kind: str, about: str, mode: str, limit: int | None, offset: int) -> None:
    try:
        clean = parse_address(VaultAddress(kind, about, None, None, 0).uri)
    except BadAddress:
        return  # Nothing but slashes, spaces or '#'.
    if kind != "attachment":
        clean = clean._replace(mode=mode, limit=limit, offset=offset)
    assert parse_address(clean.uri) == clean


@given(st.text())
def test_any_text_is_an_address_or_refused(text: str) -> None:
    for uri in (text, f"vault://{text}", f"vault://note/{text}", f"vault://recent?{text}"):
        with suppress(BadAddress):
            assert parse_address(uri).kind in FAMILY


@pytest.mark.parametrize("kind", FAMILY.values(), ids=list(FAMILY))
def test_a_template_matches_the_uris_of_its_kind(kind: ResourceKind) -> None:
    template = UriTemplate.parse(FAMILY.template(kind))
    name = kind.argument.strip("{+}")
    about = {"date": "2026-01-31"}.get(name, "Some place")
    values = {name: about} if name else {}
    all_values = {
        "mode": "full",
        "limit": "5",
        "offset": "10",
        "view": "A b",
        "format": "json",
        "this": "x",
        "depth": "2",
    }
    wanted = {each: all_values[each] for each in kind.query}

    uri = template.expand(values | wanted)

    assert template.match(uri) == values | wanted
    assert template.match(uri.partition("?")[0]) == values
    address = parse_address(uri)
    assert (address.kind, address.argument) == (kind.name, about if name else "")
    own = {"mode": address.mode, "limit": str(address.limit), "offset": str(address.offset)} | dict(address.choices)
    assert {each: own[each] for each in wanted} == wanted
    assert parse_address(address.uri) == address


def test_a_tag_made_to_be_slow_is_not() -> None:
    many = "/" * 200_000
    assert parse_address(f"vault://tag/ #/a{many}b{many}").argument == f"a{many}b"


def test_no_template_but_the_right_one_matches_a_uri() -> None:
    templates = {kind.name: UriTemplate.parse(FAMILY.template(kind)) for kind in FAMILY.values()}
    for uri in ("vault://note/a/b.md?limit=3", "vault://recent?limit=3", "vault://search/a%2Fb", "vault://tag/a/b"):
        assert [kind for kind, template in templates.items() if template.match(uri) is not None] == [
            parse_address(uri).kind
        ]

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.server.families import (
    MOST_COMPLETIONS,
    BadAddress,
    BadCursor,
    ResourceFamily,
    ResourceKind,
    best_first,
    completion,
    cursor_after,
    key_before,
)

FAMILY = ResourceFamily(
    "shop",
    ResourceKind("stock", "", "Stock", "Everything that is for sale.", "application/json", ("limit", "offset"), 20),
    ResourceKind("item", "{+path}", "Item", "One thing.", query=("mode",)),
    ResourceKind("search", "{query}", "Search", "What a search finds."),
)


def test_a_family_is_a_mapping_of_its_kinds_by_name() -> None:
    assert list(FAMILY) == ["stock", "item", "search"]
    assert len(FAMILY) == 3
    assert FAMILY["stock"].page_size == 20


def test_templates_have_the_argument_and_the_parameters_of_each_kind() -> None:
    assert [each.uri_template for each in FAMILY.templates()] == [
        "shop://stock{?limit,offset}",
        "shop://item/{+path}{?mode}",
        "shop://search/{query}",
    ]


def test_a_kind_without_an_argument_is_listed_as_a_resource() -> None:
    [stock] = FAMILY.singles(0.8)
    assert (stock.uri, stock.name, stock.mime_type) == ("shop://stock", "stock", "application/json")
    assert stock.annotations is not None
    assert stock.annotations.priority == 0.8


@pytest.mark.parametrize(
    ("name", "argument", "query", "uri"),
    [
        ("stock", "", {"limit": 5, "offset": None}, "shop://stock?limit=5"),
        ("item", "tea/green #1", None, "shop://item/tea/green%20%231"),
        ("search", "a/b?", None, "shop://search/a%2Fb%3F"),
    ],
)
def test_a_uri_has_one_canonical_form(name: str, argument: str, query: dict[str, object] | None, uri: str) -> None:
    assert FAMILY.uri(name, argument, query) == uri
    split = FAMILY.split(uri)
    assert (split.kind.name, split.argument) == (name, argument)


def test_the_scheme_and_the_kind_are_read_in_any_case_and_a_fragment_belongs_to_the_argument() -> None:
    split = FAMILY.split("SHOP://Item/tea#green?mode=full")
    assert (split.kind, split.argument, split.query) == (FAMILY["item"], "tea#green", {"mode": "full"})


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("shop://other/x", "'shop://other/x' is not a URI of this server. There are: shop://stock, shop://item/{path}"),
        ("http://stock", "is not a URI of this server"),
        ("", "'' is not a URI of this server"),
        ("shop://stock/x", "There is nothing below shop://stock. Ask for that alone"),
        ("shop://item/%ff", "encodes bytes that are not UTF-8"),
        ("shop://item/\ud800", "encodes bytes that are not UTF-8"),
        ("shop://stock?mode=full", "shop://stock takes limit and offset, each once"),
        ("shop://stock?limit=1&limit=2", "takes limit and offset, each once"),
        ("shop://search/x?y", "shop://search/{query} takes no parameters"),
    ],
)
def test_a_uri_that_is_not_of_the_family_is_refused_with_what_is_allowed(uri: str, said: str) -> None:
    with pytest.raises(BadAddress) as refused:
        FAMILY.split(uri)
    assert said in str(refused.value)


@given(st.text())
def test_splitting_returns_or_refuses_whatever_is_given(text: str) -> None:
    for uri in (text, f"shop://{text}", f"shop://item/{text}"):
        try:
            split = FAMILY.split(uri)
        except BadAddress:
            continue
        assert FAMILY.split(FAMILY.uri(split.kind.name, split.argument)).argument == split.argument


@given(st.text(min_size=1).filter(lambda text: text.isprintable()))
def test_a_cursor_gives_its_key_back(key: str) -> None:
    assert key_before(cursor_after(key)) == key


@pytest.mark.parametrize("cursor", ["", "x", "!!!!", "dGVh\n", "dGVhé", "_w=="])
def test_a_cursor_from_elsewhere_is_refused(cursor: str) -> None:
    with pytest.raises(BadCursor, match="Begin again without"):
        key_before(cursor)


def test_a_completion_has_each_value_once_and_says_if_there_are_more() -> None:
    assert completion(["a", "b", "a"]).model_dump(exclude_none=True, by_alias=True) == {
        "values": ["a", "b"],
        "total": 2,
        "hasMore": False,
    }
    many = completion(map(str, range(MOST_COMPLETIONS + 1)))
    assert (len(many.values), many.total, many.has_more) == (MOST_COMPLETIONS, MOST_COMPLETIONS + 1, True)
    part = completion(["a"], total=7)
    assert (part.total, part.has_more) == (7, True)


def test_values_that_begin_with_the_typed_text_come_first_then_those_with_such_a_word() -> None:
    assert best_first(["meat", "Green tea", "Tea", "x"], "te") == ["Tea", "Green tea"]
    assert best_first(["meatea", "Green tea", "Tea"], "TEA") == ["Tea", "Green tea", "meatea"]

"""XML as a safe tree, and as an outline."""

from contextlib import suppress

import pytest

from tidings.web.extract.model import Caps, Extracted, ExtractionFailed, ExtractOptions
from tidings.web.extract.pool import extract

URL = "https://harbour.example/data.xml"


def read(body: bytes, kind: str = "application/xml", **caps: int) -> Extracted:
    return extract(body, kind, URL, ExtractOptions(caps=Caps(**caps)))


def test_a_tree_is_shown_by_indentation() -> None:
    found = read(
        b'<?xml version="1.0"?><c:fleet xmlns:c="urn:x"><title>Boats</title>'
        b'<boat id="1" c:kind="sail"><name>Elsa</name><old/></boat></c:fleet>'
    )
    assert found.markdown == "- fleet\n  - title: Boats\n  - boat (id: 1, kind: sail)\n    - name: Elsa\n    - old"
    assert found.text == "fleet\n  title: Boats\n  boat (id: 1, kind: sail)\n    name: Elsa\n    old"
    assert (found.kind, found.method, found.title, found.empty) == ("data", "xml", "Boats", None)


def test_text_among_elements_is_prose() -> None:
    found = read(b"<doc><p>The <em>old</em>\n boat.</p></doc>")
    assert found.text == "doc\n  p: The old boat."


def test_addresses_are_kept() -> None:
    found = read(
        b"<urlset><url><loc>https://harbour.example/a</loc></url><see href='https://harbour.example/b'/>"
        b"<n>http://a b</n></urlset>"
    )
    assert "loc: https://harbour.example/a" in found.text
    assert "see (href: https://harbour.example/b)" in found.text


def test_a_page_labelled_as_xml_is_a_page() -> None:
    assert read(b"<?xml version='1.0'?><html><body><p>Hello there.</p></body></html>").method == "blocks"


def test_plain_entities_are_put_in_place() -> None:
    body = b"<!DOCTYPE d [<!ENTITY boat 'Elsa'><!ENTITY % none '' >]><d>&boat; &amp; &eacute; &unknown; &#233;</d>"
    with pytest.raises(ExtractionFailed, match="made of other entities"):
        read(body)
    assert read(body.replace(b"<!ENTITY % none '' >", b"")).text == "d: Elsa & é &unknown; é"


LAUGHS = b"<!DOCTYPE lolz [<!ENTITY lol 'lol'>" + b"".join(
    b"<!ENTITY lol%d '%s'>" % (number, b"&lol%d;" % (number - 1) * 10 if number > 1 else b"&lol;" * 10)
    for number in range(1, 10)
) + b"]><lolz>&lol9;</lolz>"  # fmt: skip
QUADRATIC = b"<!DOCTYPE q [<!ENTITY a '" + b"a" * 50_000 + b"'>]><q>" + b"&a;" * 50_000 + b"</q>"
OUTSIDE = b"<!DOCTYPE x [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><x>&x;</x>"
PARAMETERS = b"<!DOCTYPE x [<!ENTITY % a 'x'>%a;]><x/>"


@pytest.mark.parametrize("label", ["application/xml", "application/rss+xml", "text/xml"])
@pytest.mark.parametrize("body", [LAUGHS, QUADRATIC, OUTSIDE, PARAMETERS])
def test_a_bomb_of_entities_is_refused(body: bytes, label: str) -> None:
    with pytest.raises(ExtractionFailed) as refused:
        read(body, label)
    assert refused.value.kind == "bomb"


def test_an_outer_document_type_is_not_asked_for() -> None:
    assert read(b"<!DOCTYPE x SYSTEM 'http://127.0.0.1:9/x.dtd'><x>fine</x>").text == "x: fine"


@pytest.mark.parametrize("cover", [b"<!-- don't -->", b"<!-- ]> -->", b"don't", b"]>", b'<!ENTITY q "', b"<!-- "])
def test_a_bomb_that_covers_its_declarations_is_none_the_bigger(cover: bytes) -> None:
    hidden = LAUGHS.replace(b"[<!ENTITY lol ", b"[" + cover + b"<!ENTITY lol ")
    with suppress(ExtractionFailed):
        assert len(read(hidden).text) < 10_000


def test_comments_among_declarations_declare_nothing() -> None:
    body = b"<!DOCTYPE d [<!-- don't <!ENTITY x SYSTEM 'y'> --><!ENTITY boat 'Elsa'>]><d>&boat;</d>"
    assert read(body).text == "d: Elsa"


@pytest.mark.parametrize("name", [b"div", b"p", b"li", b"a:b"])
def test_a_tree_too_deep_is_refused(name: bytes) -> None:
    with pytest.raises(ExtractionFailed, match="deep") as refused:
        read(b"<%s>" % name * 5_000 + b"x" + b"</%s>" % name * 5_000)
    assert refused.value.kind == "bomb"


def test_a_tree_as_deep_as_is_allowed_loses_nothing() -> None:
    assert "x: at last" in read(b"<d>" * 200 + b"<x>at last</x>" + b"</d>" * 200).text


def test_too_many_elements_are_refused() -> None:
    with pytest.raises(ExtractionFailed, match="elements"):
        read(b"<r>" + b"<a/>" * 800_000 + b"</r>")


def test_what_is_not_well_formed_is_read_and_said_to_be_so() -> None:
    found = read(b"<a><b>one</b><c>two</a>")
    assert "b: one" in found.text
    assert "two" in found.text
    assert found.warnings[0].type == "extraction_fallback"


def test_a_tree_without_end_is_cut_with_a_warning() -> None:
    found = read(b"<r>" + b"<a>word</a>" * 1_000 + b"</r>", characters=500)
    assert len(found.markdown) <= 500
    assert found.warnings[0].type == "truncated"


@pytest.mark.parametrize("body", [b"", b" \n", b"<a/>", b"<a> <b/> </a>"])
def test_what_says_nothing_is_empty(body: bytes) -> None:
    assert read(body).empty == "empty"


def test_what_has_no_element_is_refused() -> None:
    with pytest.raises(ExtractionFailed, match="no element"):
        read(b"not xml")


def test_utf_16_is_read() -> None:
    body = '<?xml version="1.0" encoding="utf-16"?><a>Größe</a>'
    assert read(body.encode("utf-16")).text == "a: Größe"
    assert read(body.encode("utf-16-be")).text == "a: Größe"

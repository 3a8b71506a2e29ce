"""A page of a server's, without what no policy forbids."""

import pytest

from tidings.inspector.http.api.contents import tamed


@pytest.mark.parametrize(
    "page",
    [
        "<link rel=preconnect href=//x>",
        "<LINK/rel=preconnect href=//x>",
        "<p><link\nrel=preconnect href=//x></p>",
        "<h:link xmlns:h='http://www.w3.org/1999/xhtml' rel='preconnect' href='//x'></h:link>",
        "<iframe srcdoc='&lt;link rel=preconnect href=//x&gt;'></iframe>",
        "<iframe SrcDoc=x></iframe>",
    ],
)
@pytest.mark.parametrize("coding", ["utf-8", "utf-16", "utf-8-sig"])
def test_there_are_no_links_in_it_nor_frames_that_could_have_some(page: str, coding: str) -> None:
    shown = tamed(page.encode(coding))
    assert shown is not None
    text = shown.decode("utf-8-sig").lower()
    assert "<link" not in text
    assert ":link" not in text
    assert "srcdoc" not in text


def test_everything_else_is_as_it_was() -> None:
    page = b"<!doctype html><!-- <linker> --><p class=link>A link &lt;link&gt; <a href=x>src doc</a></p>"
    assert tamed(page) == page


@pytest.mark.parametrize(
    ("drawing", "shown"),
    [
        ('<!DOCTYPE svg [<!ENTITY a "<x:link/>">]><svg>&a;</svg>', False),
        ("<!DOCTYPE svg [<!ENTITY a '&#60;x:link/>'>]><svg>&a;</svg>", False),
        ('<!DOCTYPE svg [<!ENTITY svg "http://www.w3.org/2000/svg">]><svg xmlns="&svg;"/>', True),
    ],
)
def test_a_drawing_whose_entities_have_elements_in_them_is_not_shown(drawing: str, shown: bool) -> None:
    assert (tamed(drawing.encode()) is not None) is shown

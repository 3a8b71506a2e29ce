"""The built page: small, and with nothing from elsewhere."""

import re
from pathlib import Path

MOST_BYTES = 180_000


def test_all_of_its_scripts_and_styles_are_less_than_180_kb_compressed(built: Path) -> None:
    scripts = [*(built / "assets").glob("*.js.gz"), *(built / "assets").glob("*.css.gz")]
    assert len(scripts) == len([*(built / "assets").glob("*.js"), *(built / "assets").glob("*.css")])
    assert sum(each.stat().st_size for each in scripts) <= MOST_BYTES


def test_it_names_no_address_outside(built: Path) -> None:
    # Of XML, of error messages, of an example, of a server on this machine.
    names = {"http://www.w3.org", "https://svelte.dev", "https://host", "http://127.0.0.1"}
    for path in [built / "index.html", *(built / "assets").glob("*.js"), *(built / "assets").glob("*.css")]:
        found = set(re.findall(r"https?://[a-z0-9.-]+[a-z0-9]", path.read_text()))
        assert found <= names, path.name

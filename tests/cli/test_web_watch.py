"""`tidings web watch`: pages followed without MCP."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.cli.running import Done, line_of, started, tidings

OPTIONS = ("--allow-private", "127.0.0.0/8", "--every", "0.2", "--count", "1", "--robots", "ignore", "--workers", "1")
PAGE = "<html><head><title>Mug</title></head><body><h1>Mug</h1><p class=price>{}</p><p>A mug that holds tea.</p></body>"


class Shop(BaseHTTPRequestHandler):
    """A page whose price falls with each request, and a webhook."""

    server: Any

    def do_GET(self) -> None:
        self.server.asked.append({name.lower(): value for name, value in self.headers.items()})
        price = max(50 - len(self.server.asked), 40)
        self._reply(PAGE.format(f"{price}.00 EUR").encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.append(json.loads(body))
        self._reply(b"")

    def _reply(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return None


@contextmanager
def shop() -> Generator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    server.asked, server.posted = [], []
    server.url = f"http://127.0.0.1:{server.server_port}/mug"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_change_is_printed_and_fed_and_sent(tmp_path: Path) -> None:
    feed, out = tmp_path / "changes.xml", tmp_path / "out"
    with shop() as here:
        words = ("--part", "css:.price", "--feed", str(feed), "--webhook", here.url, "--json")
        command = ("--exec", f'cat > {out}; echo "$TIDINGS_URI" >> {out}')
        secret = ("--header", "Authorization: Bearer $SHOP_KEY")
        done = tidings("web", "watch", here.url, *words, *command, *secret, *OPTIONS, SHOP_KEY="s3cret-of-the-shop")
        assert done.code == 0, done.err
        change = json.loads(done.out)
        assert change["url"] == here.url
        assert "49.00" in change["diff"]
        assert "48.00" in change["diff"]
        assert here.posted == [change]
        assert here.asked[-1]["authorization"] == "Bearer s3cret-of-the-shop"
        assert out.read_text().endswith(f"{here.url}\n")
        root = ET.fromstring(feed.read_bytes())
        (entry,) = root.findall("{http://www.w3.org/2005/Atom}entry")
        assert "48.00" in (entry.findtext("{http://www.w3.org/2005/Atom}content") or "")
        assert "s3cret" not in done.out + done.err + feed.read_text()


@pytest.mark.parametrize("words", [("web", "watch"), ("watch", "web")])
def test_both_orders_of_the_words_mean_the_same(words: tuple[str, str]) -> None:
    with shop() as here:
        done = tidings(*words, here.url, "--part", "css:.price", "--when", "below 47", *OPTIONS)
        assert done.code == 0, done.err
        assert "+46.00 EUR" in done.out or "46.00" in done.out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("ftp://example.org/",), "only http and https"),
        (("http://10.0.0.1/",), "--allow-private"),
        (("http://127.0.0.1:9/", "--part", "price"), "names no part"),
        (("http://127.0.0.1:9/", "--when", "soon"), "not understood"),
        (("http://127.0.0.1:9/", "--header", "x"), "not a header"),
        (("http://127.0.0.1:9/", "--header", "Cookie: s=1", "--store", "nowhere.db"), "'Cookie' would be stored"),
        (("http://[bad/", "--header", "Cookie: $HOME"), "not an IPv6 address"),
        (("example.org/news", "--header", "Cookie: $HOME"), "not a complete URL"),
        (("http://127.0.0.1:9/", "--webhook", "hooks"), "not a complete URL"),
        (("http://127.0.0.1:9/", "--feed", "nowhere/feed.xml"), "cannot be written"),
        (("http://127.0.0.1:9/", "--feed", "."), "cannot be read"),
    ],
)
def test_what_cannot_be_watched_is_refused_in_a_line(words: tuple[str, ...], why: str) -> None:
    done: Done = tidings("web", "watch", *words, "--robots", "ignore")
    assert done.code == 2
    assert why in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("text", ["my notes", "<rss version='2.0'/>"])
def test_a_file_that_is_no_atom_feed_is_refused_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text(text)
    done: Done = tidings("web", "watch", "http://127.0.0.1:9/", "--feed", str(notes))
    assert done.code == 2
    assert "is not an Atom feed" in done.err
    assert notes.read_text() == text


def test_it_ends_when_the_reader_of_its_output_goes() -> None:
    with shop() as here, started("web", "watch", here.url, *OPTIONS[:2], "--robots", "ignore") as watching:
        assert "Watching" in line_of(watching, "stderr")
        assert watching.stdout is not None
        watching.stdout.close()
        assert watching.wait(20) == 141

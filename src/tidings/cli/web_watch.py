"""`tidings web watch`: follows pages without MCP, and prints, runs, posts or writes a feed of what changed."""

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import click

from tidings._kit.files import replace_file
from tidings.cli.exits import FEW, Refusal, end_with_reader
from tidings.cli.logs import log_options, logger
from tidings.cli.serving import until_stopped
from tidings.cli.terminal import option
from tidings.cli.watch import run_program
from tidings.cli.web import check_packages, settings_options
from tidings.web.settings import BadSetting, Settings

_ATOM: Final = "http://www.w3.org/2005/Atom"
_MOST_ENTRIES: Final = 100
_TRIES: Final = 3
_EMPTY: Final = (
    f'<feed xmlns="{_ATOM}"><id>urn:tidings:changes</id><title>Changes of web pages</title>'
    "<author><name>Tidings</name></author></feed>"
)
_NOT_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@click.command("watch", epilog=FEW)
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@option("--every=SECONDS", "Check each page at this interval.", click.FloatRange(min=0.1))
@option("--part=PART", "Watch only a part, for example css:.price, heading:News, json:$.x or site.", default="")
@option("--when=CONDITION", "Report only when this becomes true, for example 'price below 50'.", default="")
@option("headers --header='K: V'", "Send this header; $NAME is read from the environment.", multiple=True)
@option("--data=BODY", "Send a POST request with this body, for example JSON.", default="")
@option("program --exec=CMD", "Run this shell command for each change, with the diff on standard input.")
@option("--webhook=URL", "Send each change to this URL as JSON, with a POST request.")
@option("--feed=FILE", "Add each change to this Atom feed.", click.Path(path_type=Path))
@option("as_json --json", "Print a line of JSON for each change.")
@option("--count=N", "Exit after N changes.", click.IntRange(min=1))
@settings_options
@log_options
def watch_command(
    urls: tuple[str, ...],
    *,
    every: float | None,
    part: str,
    when: str,
    headers: tuple[str, ...],
    data: str,
    program: str | None,
    webhook: str | None,
    feed: Path | None,
    as_json: bool,
    count: int | None,
    **given: Any,
) -> None:
    """Follow web pages, and report each change: the title, the facts that changed, and a diff.

    With --exec, the shell command gets the URL in the environment variable TIDINGS_URI. With --store FILE, changes
    between two runs are reported, too.
    """
    check_packages(render=bool(given.get("render")))
    from tidings.web.fetch.request import SECRET_NAME, BadUrl
    from tidings.web.fetch.urls import parse
    from tidings.web.page_options import kept_openly

    named = dict(_header(each) for each in headers)
    try:
        hosts = dict.fromkeys(parse(url).host for url in urls)
        _ = parse(webhook) if webhook is not None else None
        settings = Settings(**{name: value for name, value in given.items() if value not in (None, ())})
        if every is not None:
            settings = replace(settings, watch_min=min(every, settings.watch_min))
        # Who types the command may send what its environment has, to the hosts of these pages.
        names = {name for text in (*named.values(), data) for name in SECRET_NAME.findall(text)}
        granted = [f"{name}@{host}" for name in sorted(names) for host in hosts]
        settings = replace(settings, secrets=" ".join(filter(None, [settings.secrets, *granted])))
    except (BadSetting, BadUrl) as error:
        raise Refusal(str(error)) from None
    if settings.store is not None and (name := kept_openly(named)):
        how = "Put it into the environment, and write $NAME"
        raise Refusal(f"--header: the value of {name!r} would be stored in {settings.store}. {how}.")
    if feed is not None:
        _write(feed, _read(feed))  # Refused now, and not after the first change.

    end_with_reader(printing=(printing := as_json or not (program or webhook or feed)))

    async def tell(change: dict[str, Any]) -> None:
        if program is not None:
            await run_program(program, change["url"], change["diff"].encode())
        if webhook is not None:
            await _post(webhook, change)
        if feed is not None:
            _add_to_feed(feed, change)
        if printing:
            click.echo(json.dumps(change, ensure_ascii=False) if as_json else change["diff"])

    wanted: dict[str, Any] = {"part": part, "login": named, "body": data}
    until_stopped(partial(_follow, urls, settings, tell, every=every, when=when, count=count, **wanted))


def _header(text: str) -> tuple[str, str]:
    name, found, value = text.partition(":")
    if not found or not name.strip():
        raise Refusal(f"{text!r} is not a header. Write it like 'Authorization: Bearer $TOKEN'.")
    return name.strip(), value.strip()


async def _follow(
    urls: Sequence[str],
    settings: Settings,
    tell: Callable[[dict[str, Any]], Any],
    *,
    every: float | None,
    when: str,
    count: int | None,
    **wanted: Any,
) -> None:
    """Tells of the changes of pages. `wanted` are fields of `FetchOptions`."""
    import anyio

    from tidings.web.extract.model import ExtractionFailed
    from tidings.web.extract.part import BadPart, check_part
    from tidings.web.fetch.request import FetchError
    from tidings.web.page_options import FetchOptions
    from tidings.web.resources import difference
    from tidings.web.store.model import StoreError
    from tidings.web.watch.state import DIFF, BadCondition, check_condition
    from tidings.web.wiring import running

    send, changes = anyio.create_memory_object_stream[str](math.inf)

    async def on_change(uris: Any, _listed: bool) -> None:
        for uri in uris:
            if uri.startswith(DIFF):
                send.send_nowait(uri.removeprefix(DIFF))

    options = FetchOptions(respect_robots=settings.robots != "ignore", **wanted)
    try:
        _ = check_part(options.part) if options.part else None
        _ = check_condition(when) if when else None
        async with running(settings, on_change) as parts:
            for url in urls:
                try:
                    page_id = (await parts.library.fetch(url, options)).entry.page_id
                except (FetchError, ExtractionFailed) as error:
                    raise Refusal(str(error)) from None
                await parts.watcher.begin(page_id, "command", every=every, when=when)
                logger.info("Watching %s.", url)
            left = count or math.inf
            while left:
                page = await parts.store.page_of(await changes.receive())
                if page is not None and page.versions:
                    found, newest = await difference(parts.store, page), page.versions[0]
                    entry = await parts.store.get(found["after"])
                    facts = entry.packet.get("facts", {}) if entry else {}
                    change = {"url": page.url, "address": page.address, "title": newest.title, "facts": facts}
                    await tell(
                        {**change, "changed_at": newest.retrieved_at, "id": found["after"], "diff": found["diff"]}
                    )
                    left -= 1
    except (FetchError, StoreError, BadPart, BadCondition, BadSetting) as error:
        raise Refusal(str(error)) from None


async def _post(url: str, change: dict[str, Any]) -> None:
    import anyio
    import httpx2

    for attempt in range(_TRIES):
        try:
            async with httpx2.AsyncClient(timeout=20.0) as client:
                (await client.post(url, json=change)).raise_for_status()
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            logger.warning("The change of %s could not be sent to the webhook: %s", change["url"], error)
            await anyio.sleep(2.0**attempt)
        else:
            return


def _read(path: Path) -> ET.Element:
    """Returns the Atom feed in a file; an empty one if there is no file."""
    ET.register_namespace("", _ATOM)
    try:
        feed = ET.fromstring(path.read_bytes() or _EMPTY)  # noqa: S314 - a file of this command
    except FileNotFoundError:
        return ET.fromstring(_EMPTY)  # noqa: S314 - see above
    except OSError as error:
        raise Refusal(f"--feed: {path} cannot be read: {error.strerror}. Give another file.") from None
    except ET.ParseError:
        feed = None
    if feed is None or feed.tag != f"{{{_ATOM}}}feed":
        raise Refusal(f"--feed: {path} is not an Atom feed, and is left as it is. Give another file.")
    return feed


def _write(path: Path, feed: ET.Element) -> None:
    try:
        replace_file(path, ET.tostring(feed, encoding="utf-8", xml_declaration=True), always=True)
    except OSError as error:
        raise Refusal(f"--feed: {path} cannot be written: {error.strerror}. Give another file.") from None


def _add_to_feed(path: Path, change: dict[str, Any]) -> None:
    """Adds an entry at the top of an Atom feed, and removes the oldest."""
    feed = _read(path)
    entry = ET.Element(f"{{{_ATOM}}}entry")
    for name, text, attributes in (
        ("id", f"urn:tidings:{change['id']}", {}),
        ("title", change["title"] or change["url"], {}),
        ("updated", change["changed_at"], {}),
        ("link", None, {"href": change["url"]}),
        ("content", change["diff"], {"type": "text"}),
    ):
        ET.SubElement(entry, f"{{{_ATOM}}}{name}", attributes).text = text and _NOT_XML.sub("", text)
    entries = [entry, *feed.findall(f"{{{_ATOM}}}entry")][:_MOST_ENTRIES]
    kept = [each for each in feed if each.tag not in (f"{{{_ATOM}}}entry", f"{{{_ATOM}}}updated")]
    feed[:] = [*kept, entry[2], *entries]
    _write(path, feed)

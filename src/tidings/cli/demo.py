"""`tidings demo`: everything at work, on a sample vault and a small site, with a tour."""

import os
import sys
from importlib.util import find_spec
from typing import Any

import click

from tidings.cli.exits import BAD_ANSWER, BUG, OK, YOURS, Refusal, epilog
from tidings.cli.inspecting import listen_for_page, opened, page_options
from tidings.cli.logs import log_options
from tidings.cli.terminal import is_terminal


@click.command("demo", epilog=epilog(OK, BAD_ANSWER, YOURS, BUG))
@page_options
@click.option(
    "--for",
    "seconds",
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    help="End after so long; the steps are left to you, in any case.",
)
@log_options
def command(port: int | None, *, no_browser: bool, seconds: float | None) -> None:
    """See it work: a sample vault, a small site, the inspector on both, and a tour.

    The tour is in the page and in the terminal. Without a terminal to type into, as in CI, it does each step by itself,
    says what was seen and how long it took, and ends: with 1 if a step did not have its effect.

    Everything is written into a temporary folder, which is removed at the end.
    """
    _check_packages()
    listening, address = listen_for_page("127.0.0.1", port)

    from tidings.inspector.http.gate import Key

    key = Key(address.port)
    url = f"{address.url.removesuffix('/mcp')}/#token={key.token}"
    typed = is_terminal(sys.stdin)
    automatic = not typed and seconds is None
    click.echo(f"{url}\n")
    built = _is_built()
    with listening, opened(url, asked=built and not no_browser and not automatic) as on_screen:
        click.echo(_welcome(built=built, automatic=automatic, on_screen=on_screen))
        code = _show(listening=listening, key=key, automatic=automatic, typed=typed, seconds=seconds)
    # Everything has ended. Taking the SDK's thousands of classes apart would take longer than all of that.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _check_packages() -> None:
    from tidings.vault import PACKAGES as OF_VAULT
    from tidings.web.needs import PACKAGES as OF_WEB

    if missing := [name for name in dict.fromkeys((*OF_VAULT, *OF_WEB)) if find_spec(name) is None]:
        how = 'pip install "tidings[vault,web]" (in a clone: pip install ".[vault,web]")'
        raise Refusal(f"The demo needs more packages ({', '.join(missing)}): {how}")


def _is_built() -> bool:
    from tidings.inspector.http.app import STATIC

    return (STATIC / "index.html").is_file()


def _welcome(*, built: bool, automatic: bool, on_screen: bool) -> str:
    if automatic:
        where = "Nobody can type here, so the tour goes by itself; meanwhile the address above shows it in a browser."
    elif not built:
        where = "The page was not built (in a clone, `make ui` does it); the tour in the terminal needs none."
    elif on_screen:
        where = "The page opens in your browser; the tour is in it, and here."
    else:
        where = "Open the address above in a browser: the tour is in the page, and here."
    return f"A sample vault, a small site, a server for each, and the inspector on both are starting.\n{where}\n"


def _show(**how: Any) -> int:
    import asyncio

    from tidings.demo.show import DemoOptions, StageFailed, show

    # Ctrl-C ends the tour in order while it runs; before and after, and on Windows, it is an interrupt.
    try:
        return asyncio.run(show(DemoOptions(say=_say, **how)))
    except KeyboardInterrupt:
        return 0
    except StageFailed as failure:
        raise Refusal(str(failure)) from None


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()

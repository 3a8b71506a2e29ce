"""`tidings demo`."""

import os
import sys

import click

from tidings._kit.lazy import not_installed, packages_missing
from tidings.cli.exits import BAD_ANSWER, BUG, OK, YOURS, Refusal, epilog
from tidings.cli.inspect_ import listen_for_page, opened, page_options
from tidings.cli.logs import log_options
from tidings.cli.terminal import is_terminal, option


@click.command("demo", epilog=epilog(OK, BAD_ANSWER, YOURS, BUG))
@page_options
@option(
    "seconds --for=SECONDS",
    "Stop after this time. With this option, the tour waits for you even without a terminal.",
    click.FloatRange(0, min_open=True),
)
@log_options
def command(port: int | None, *, no_browser: bool, seconds: float | None) -> None:
    """Take a tour: a sample vault, a small site, and the inspector for both.

    The page guides you through the tour, and the terminal shows what happens. Without a terminal, for example in CI,
    the demo performs each step itself, prints what happened and how long it took, and ends with exit code 1 if a step
    had no effect.

    All files are in a temporary folder, which is removed at the end.
    """
    from tidings.vault import PACKAGES as VAULT_PACKAGES
    from tidings.web import PACKAGES as WEB_PACKAGES

    if missing := not_installed(dict.fromkeys((*VAULT_PACKAGES, *WEB_PACKAGES))):
        raise Refusal(packages_missing("The demo", missing, extra="vault,web"))
    listening, address = listen_for_page("127.0.0.1", port)

    from tidings.inspector.http.gate import Key
    from tidings.inspector.http.serve import STATIC

    key = Key(address.port)
    url = f"{address.url.removesuffix('/mcp')}/#token={key.token}"
    automatic = not is_terminal(sys.stdin) and seconds is None
    click.echo(f"{url}\n")
    built = (STATIC / "index.html").is_file()
    with listening, opened(url, asked=built and not no_browser and not automatic) as on_screen:
        click.echo(_welcome(built=built, automatic=automatic, on_screen=on_screen))
        import asyncio

        from tidings.demo.sample import StageFailed
        from tidings.demo.show import show

        try:  # While the tour runs, it handles Ctrl-C itself, except on Windows.
            begun = show(say=click.echo, listening=listening, key=key, automatic=automatic, seconds=seconds)
            code = asyncio.run(begun)
        except KeyboardInterrupt:
            code = 0
        except StageFailed as failure:
            raise Refusal(str(failure)) from None
    # Everything is closed. A regular exit would spend time on deleting the SDK's thousands of classes.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _welcome(*, built: bool, automatic: bool, on_screen: bool) -> str:
    if automatic:
        where = "There is no terminal, so the tour runs by itself. The URL above shows it in a browser."
    elif not built:
        where = "The page is not built (in a clone, run `make ui`). Do these steps by hand. Ctrl-C ends the demo."
    elif on_screen:
        where = "The page opens in your browser, with a tour. Its steps are here, too; Ctrl-C ends the demo."
    else:
        where = "Open the URL above in a browser (it works once), and take these steps. Ctrl-C ends the demo."
    return f"Starting a sample vault, a small site, a server for each, and the inspector.\n{where}\n"

"""`tidings read`: the content of a resource."""

from typing import Any, cast

import click

from tidings._kit.suggest import closest
from tidings.cli.contents import dumped, show_resource
from tidings.cli.conversation import KINDS, Conversation, converse, load_if_any, unknown
from tidings.cli.exits import OneShotFailed, failed, malformed
from tidings.cli.oneshot import Asked, completes, one_shot
from tidings.errors import ResourceNotFound, ServerError


@one_shot("read")
@click.argument("uri", shell_complete=completes("resources"))
@click.option("-o", "--output", metavar="FILE", help="Write the content there; several contents into a folder.")
def command(asked: Asked, uri: str, output: str | None) -> None:
    """Read a resource, and print its content.

    Text is printed as it is. Binary content goes to a pipe or, with --output, into a file; not to a terminal.
    """
    if not uri.strip():
        raise OneShotFailed("Which resource? Give its URI: `tidings list TARGET resources` shows which there are.")

    def show(result: dict[str, Any]) -> None:
        if asked.as_json and output is None:
            click.echo(dumped(result))
        else:
            show_resource(result["contents"], output)

    converse(asked, lambda talk: _read(talk, uri), show)


def _read(talk: Conversation, uri: str) -> dict[str, Any]:
    try:
        result = talk.request("resources/read", {"uri": uri})
    except ServerError as error:
        raise _not_read(talk, uri, error) from error
    contents = result.get("contents")
    if not isinstance(contents, list) or not all(isinstance(each, dict) for each in cast("list[Any]", contents)):
        raise malformed("The server's answer to resources/read has no list of contents.", result)
    return result


def _not_read(talk: Conversation, uri: str, error: ServerError) -> OneShotFailed | ServerError:
    """Why a resource could not be read: perhaps the server has others."""
    resources = load_if_any(talk, KINDS["resources"])
    if uri in resources.ids:
        return error
    templates = load_if_any(talk, KINDS["templates"])
    close = closest(uri, resources.ids, most=3, cutoff=0.5)
    end = unknown(resources, uri, [templates] if templates.ids and not close else [])
    if not isinstance(error, ResourceNotFound):
        # It may be there though it is not listed: the server says what is wrong, and we what may be meant.
        told = failed(error)
        if close:
            told.message = f"{told.message.rstrip('.')}. Did you mean {close[0]!r}?"
        return told
    end.code, end.help_page = error.code, error.help_page
    return end

"""`tidings read`."""

from typing import Any

import click

from tidings._kit.suggest import closest, question
from tidings.cli.contents import dumped, show_resource
from tidings.cli.conversation import KINDS, Conversation, converse, unknown
from tidings.cli.exits import OneShotFailed, failed, malformed
from tidings.cli.oneshot import OneShotOptions, completes, one_shot
from tidings.errors import ResourceNotFound, ServerError


@one_shot("read")
@click.argument("uri", shell_complete=completes("resources"))
@click.option("-o", "--output", metavar="FILE", help="Write the content to this file, or several contents to a folder.")
def command(options: OneShotOptions, uri: str, output: str | None) -> None:
    """Read a resource and print its content.

    Text is printed as it is. Binary content can go to a pipe or, with --output, to a file, but not to a terminal.
    """
    if not uri.strip():
        raise OneShotFailed("The URI is empty. `tidings list TARGET resources` shows the resources of the server.")

    def show(result: dict[str, Any]) -> None:
        if options.as_json and output is None:
            click.echo(dumped(result))
        else:
            show_resource(result["contents"], output)

    converse(options, lambda conversation: _read(conversation, uri), show)


def _read(conversation: Conversation, uri: str) -> dict[str, Any]:
    try:
        result = conversation.request("resources/read", {"uri": uri})
    except ServerError as error:
        raise _not_read(conversation, uri, error) from error
    contents: Any = result.get("contents")
    if not isinstance(contents, list) or not all(isinstance(each, dict) for each in contents):  # type: ignore[reportUnknownVariableType]
        raise malformed("The server's answer to resources/read has no list of contents.", result)
    return result


def _not_read(conversation: Conversation, uri: str, error: ServerError) -> OneShotFailed | ServerError:
    """Returns the reason why a resource could not be read, with similar resources of the server."""
    resources = conversation.load_if_any(KINDS["resources"])
    if uri in resources.ids:
        return error
    close = closest(uri, resources.ids, cutoff=0.5)
    if not isinstance(error, ResourceNotFound):  # It may exist although it is not listed.
        end = failed(error)
        end.message = f"{end.message.rstrip('.')}.{question(close)}" if close else end.message
        return end
    templates = conversation.load_if_any(KINDS["templates"])
    end = unknown(uri, resources, *([templates] if templates.ids and not close else []))
    end.code, end.help_page = error.code, error.help_page
    return end

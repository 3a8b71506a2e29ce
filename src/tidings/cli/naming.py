"""Names that the shell completes: imported by each command, so that nothing is imported here before it is needed."""

from collections.abc import Callable

import click
from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def completes(kind: str) -> Completer:
    """A completer for the names of what the TARGET has: tools, resources, prompts."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from tidings.cli.completing import names

        return names(ctx, kind, incomplete)

    return complete

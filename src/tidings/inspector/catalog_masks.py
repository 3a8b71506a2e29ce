"""An entry that was edited as it was shown: what is masked in it is as it was."""

from dataclasses import replace
from urllib.parse import urlsplit

from tidings.client.masking import MASK, shown_arguments, shown_url
from tidings.inspector.catalog_entry import ServerEntry
from tidings.inspector.catalog_file import CatalogError
from tidings.inspector.catalog_secrets import put_back


def keep_secrets(edited: ServerEntry, original: ServerEntry) -> ServerEntry:
    """`edited`, which was made from `original.shown()`, with the secrets of `original` where they were left alone.

    Raises:
        CatalogError: It leads to another program or another host than before, and something in it is still masked.
            Whoever may change where an entry leads must not thereby learn what it holds.
    """
    if _goes_to(edited) != _goes_to(original):
        if any(
            MASK in text for text in (*edited.args, *edited.env.values(), *edited.headers.values(), edited.url or "")
        ):
            raise CatalogError("This is another server now: give what is masked (***) again, or take it out.")
        return edited
    shown = shown_arguments(original.args)[0]
    known = {text: secret for text, secret in zip(shown, original.args, strict=True) if text not in (secret, MASK)}
    args = [
        original.args[spot] if spot < len(shown) and text == shown[spot] else known.get(text, text)
        for spot, text in enumerate(edited.args)
    ]
    unchanged = original.url is not None and edited.url == shown_url(original.url)
    others = {key: original.others.get(key, value) if value == MASK else value for key, value in edited.others.items()}
    return replace(
        edited,
        args=tuple(args),
        url=original.url if unchanged else edited.url,
        env=put_back(edited.env, original.env),
        headers=put_back(edited.headers, original.headers),
        others=others,
    )


def _goes_to(entry: ServerEntry) -> tuple[str | None, ...]:
    if entry.url is None:
        return (entry.command,)
    try:
        parts = urlsplit(entry.url)
    except ValueError:
        return (entry.url,)
    return parts.scheme.lower(), parts.netloc.rpartition("@")[2].lower()

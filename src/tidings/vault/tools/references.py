"""What the index knows of links and names, for the thread that moves something: see `moving.References`."""

import json
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any

from anyio import from_thread

from tidings.vault.library import Library
from tidings.vault.view import View

Found = Callable[[int], Coroutine[Any, Any, None]]
"""Told how many files have links that may have to be changed."""

_SOURCES = "SELECT DISTINCT path FROM links JOIN files ON files.id = links.file WHERE links.name IN "
_VALUES = "(SELECT value FROM json_each(?)) ORDER BY path"


class IndexReferences:
    """Asks the library, from a thread that `Library.write` has started."""

    def __init__(self, library: Library, found: Found) -> None:
        self._library = library
        self._found = found
        self._candidates: dict[str, Sequence[str]] = {}

    def sources(self, names: Collection[str], /) -> Iterable[str]:
        """See `moving.References`."""
        wanted = json.dumps(list(names))

        def question(view: View) -> list[str]:
            rows = view.queries.connection.execute(_SOURCES + _VALUES, (wanted,))
            return [path for (path,) in rows]

        paths = from_thread.run(self._library.ask, question)
        from_thread.run(self._found, len(paths))
        return paths

    def candidates(self, name: str, /) -> Sequence[str]:
        """See `moving.References`."""

        def question(view: View) -> Sequence[str]:
            return view.queries.candidates(name)

        if name not in self._candidates:
            self._candidates[name] = from_thread.run(self._library.ask, question)
        return self._candidates[name]

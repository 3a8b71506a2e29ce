"""What a client wants to hear of: what its user subscribed to, what is watched, what the next process needs."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from tidings.client.watching import Watches

_SEPARATORS: Final = ("/", "?", "#")
"""What may stand between a resource's URI and that of a part of it."""


class Wanted:
    """The URIs, and prefixes with a `*`, that somebody wants. After a change of them, call `changed`."""

    def __init__(self, watched: Watches) -> None:
        self._watched = watched
        self._asking: Counter[str] = Counter()
        """How many wait for the first word on a subscription."""
        self._prefixes: tuple[str, ...] = ()
        self.explicit: dict[str, None] = {}
        """What the user subscribed to, or is about to."""
        self.kept: set[str] = set()
        """What nobody wants now, but may after a restart."""

    def changed(self) -> None:
        """What is explicit is another now."""
        self._prefixes = tuple(text[:-1] for text in self.explicit if text.endswith("*"))

    def granted(self) -> list[str]:
        """What the user subscribed to, and the server took."""
        return [uri for uri in self.explicit if uri not in self._asking]

    def is_granted(self, uri: object) -> bool:
        """Whether this is one of those."""
        return uri in self.explicit and uri not in self._asking

    @property
    def all(self) -> frozenset[str]:
        """Everything."""
        return frozenset(self.explicit).union(self._watched, self.kept)

    def wants(self, uri: str) -> bool:
        """Whether somebody wants this very URI."""
        return uri in self.explicit or uri in self._watched or uri in self.kept

    def concerned(self, uri: str) -> list[str]:
        """The resources whose content an update of `uri` concerns: itself and what it is a part of, as far as
        somebody subscribed.
        """
        parents = {uri[:place] for place, sign in enumerate(uri) if sign in _SEPARATORS}
        parents |= {parent + "/" for parent in parents}
        found = [parent for parent in parents if parent != uri and self.wants(parent)]
        if found or self.wants(uri) or uri.startswith(self._prefixes):
            found.append(uri)
        return found

    def ask(self, uris: Iterable[str]) -> list[str]:
        """Somebody asks for these, and waits for a word on those that are returned."""
        new = [uri for uri in dict.fromkeys(uris) if uri not in self.explicit or uri in self._asking]
        self.explicit.update(dict.fromkeys(new))
        self._asking.update(new)
        return new

    def grant(self, uris: Iterable[str]) -> set[str]:
        """The server took these. Returns those that somebody waited for."""
        granted = self._asking.keys() & set(uris)
        for uri in granted:
            del self._asking[uri]
        return granted

    def give_up(self, uris: Iterable[str]) -> list[str]:
        """One who asked for these does not wait any more. Returns those that nobody waits for now, nor has got."""
        waited = [uri for uri in uris if uri in self._asking]
        self._asking.subtract(waited)
        return [uri for uri in waited if not self._asking[uri]]

    def drop(self, uri: str) -> None:
        """The user does not want this any more."""
        self.explicit.pop(uri, None)
        del self._asking[uri]
        self.kept.discard(uri)

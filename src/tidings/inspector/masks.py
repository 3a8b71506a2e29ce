"""What must not be shown of what goes to a server and comes from it: the secrets that its entry has."""

from collections.abc import Callable, Mapping
from typing import Any, cast

from tidings.inspector.bounds import dumps


class Mask:
    """Called with a JSON value, gives the same without the secrets."""

    def __init__(self) -> None:
        self._secrets: frozenset[str] = frozenset()
        self._clean: Callable[[str], str] = str

    def hide(self, secrets: frozenset[str], clean: Callable[[str], str]) -> None:
        """From now on, these; `clean` takes them out of a text."""
        self._secrets, self._clean = secrets, clean

    def __call__(self, value: Any) -> Any:
        """The value without secrets; the same object if it has none."""
        if not self._secrets or value is None:
            return value
        text = value if isinstance(value, str) else dumps(value)
        if "\\" not in text and not any(secret in text for secret in self._secrets):
            return value
        return self._masked(value)

    def _masked(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._clean(value)
        if isinstance(value, Mapping):
            return {self._clean(str(key)): self._masked(each) for key, each in cast("Mapping[Any, Any]", value).items()}
        if isinstance(value, list | tuple):
            return [self._masked(each) for each in cast("list[Any]", value)]
        return value

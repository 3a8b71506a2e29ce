"""What is different in a server's lists from one load to the next, so that 10,000 resources are not told again."""

from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel

from tidings._kit.bounded_json import as_dicts, as_text, cut, weigh
from tidings.inspector.records import LIST_KEYS, ListName

_METHODS: Final[dict[str, tuple[ListName, str]]] = {
    "tools/list": ("tools", "tools"),
    "resources/list": ("resources", "resources"),
    "resources/templates/list": ("templates", "resourceTemplates"),
    "prompts/list": ("prompts", "prompts"),
}
_ATTRIBUTES: Final = {"name": "name", "uri": "uri", "uriTemplate": "uri_template"}


class ListKeeper:
    """The lists as they were told last, and what was seen of them on the wire since."""

    def __init__(self, most: int = 2**20) -> None:
        self._most = most
        self._items: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in LIST_KEYS}
        self._raw: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in LIST_KEYS}
        self._flaws: set[tuple[str, str]] = set()

    def asked(self, method: str, params: dict[str, Any]) -> None:
        """A page of a list is asked for. The first page begins a list anew."""
        if method in _METHODS and "cursor" not in params:
            self._raw[_METHODS[method][0]] = {}

    def answered(self, method: str, result: dict[str, Any]) -> None:
        """A page of a list has come, as it is: with what the protocol does not know."""
        if method not in _METHODS:
            return
        name, key = _METHODS[method]
        raw = self._raw[name]
        for item in as_dicts(result.get(key)):
            if (known := as_text(item.get(LIST_KEYS[name]))) is not None:
                raw.setdefault(known, item)

    def loaded(self, name: ListName, models: Sequence[BaseModel], malformed: list[dict[str, Any]]) -> dict[str, Any]:
        """A list was loaded: the data of the record that says what is different."""
        before, raw = self._items[name], self._raw[name]
        attribute = _ATTRIBUTES[LIST_KEYS[name]]
        now: dict[str, dict[str, Any]] = {}
        duplicates: list[dict[str, Any]] = []
        for model in models:
            key = str(getattr(model, attribute))
            if key in now:
                duplicates.append(self._dumped(model))
            else:
                now[key] = raw.get(key) or self._dumped(model)
        self._raw[name] = {}
        data: dict[str, Any] = {
            "list": name,
            "added": [self._kept(name, key, item) for key, item in now.items() if key not in before],
            "changed": [self._kept(name, key, item) for key, item in now.items() if before.get(key, item) != item],
            "removed": [key for key in before if key not in now],
            "total": len(models),
        }
        if [*(key for key in before if key in now), *(key for key in now if key not in before)] != list(now):
            data["order"] = list(now)
        self._items[name] = now
        for what, found in (("duplicates", duplicates), ("malformed", malformed)):
            if found or (name, what) in self._flaws:
                data[what] = found
            (self._flaws.add if found else self._flaws.discard)((name, what))
        return data

    def _kept(self, name: ListName, key: str, item: dict[str, Any]) -> dict[str, Any]:
        if (size := weigh(item, self._most)) <= self._most:
            return item
        return {LIST_KEYS[name]: key, **cut(item, size)}

    @staticmethod
    def _dumped(model: BaseModel) -> dict[str, Any]:
        return model.model_dump(mode="json", by_alias=True, exclude_unset=True)

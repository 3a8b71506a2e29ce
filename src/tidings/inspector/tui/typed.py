"""What was typed into a form: texts in the shape of the value (see `schemas.values`), changed place by place."""

from typing import Any, cast

Path = tuple[str | int, ...]


class Typed:
    """The texts of a form. What is emptied is left out again, with the objects that are empty then."""

    def __init__(self, texts: Any = None) -> None:
        self.texts: Any = texts

    def get(self, path: Path) -> Any:
        """What stands at this place; None if nothing does."""
        here = self.texts
        for key in path:
            if isinstance(here, dict) and isinstance(key, str):
                here = cast("dict[str, Any]", here).get(key)
            elif isinstance(here, list) and isinstance(key, int) and key < len(cast("list[Any]", here)):
                here = cast("list[Any]", here)[key]
            else:
                return None
        return here

    def put(self, path: Path, value: Any) -> None:
        """Put this there, with all that has to be around it."""
        self.texts = _put(self.texts, path, value)

    def drop(self, path: Path) -> None:
        """Take away what stands there: a key of an object, or an entry of a list."""
        if not path:
            self.texts = None
            return
        around = self.get(path[:-1])
        key = path[-1]
        if isinstance(around, dict) and isinstance(key, str):
            kept: dict[str, Any] = {
                name: value for name, value in cast("dict[str, Any]", around).items() if name != key
            }
            if kept:
                self.put(path[:-1], kept)
            else:
                self._prune(path[:-1])
        elif isinstance(around, list) and isinstance(key, int):
            entries = cast("list[Any]", around)
            self.put(path[:-1], entries[:key] + entries[key + 1 :])

    def _prune(self, path: Path) -> None:
        """An object without keys is left out, unless it is an entry of a list or a choice: then it keeps its place."""
        around = self.get(path[:-1]) if path else None
        is_chosen = bool(path) and path[-1] == "value" and isinstance(around, dict) and "$choice" in around
        if not path or isinstance(path[-1], int) or is_chosen:
            self.put(path, {})
        else:
            self.drop(path)


def _put(here: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    key, rest = path[0], path[1:]
    if isinstance(key, int):
        entries: list[Any] = list(cast("list[Any]", here)) if isinstance(here, list) else []
        entries += [None] * (key + 1 - len(entries))
        entries[key] = _put(entries[key], rest, value)
        return entries
    around: dict[str, Any] = dict(cast("dict[str, Any]", here)) if isinstance(here, dict) else {}
    around[key] = _put(around.get(key), rest, value)
    return around

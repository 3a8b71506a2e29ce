"""One entry in the configuration file of an AI client: everything else in the file stays as it is, with its comments.

`edited` returns the new text. A file that cannot be read as what it should be is refused, with the line of the fault.
"""

import io
import json
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from json import JSONDecoder
from typing import Any, Final, Literal

from tidings._kit.bounded_json import NotJson, as_dict, as_dict_or_none, parse_with_comments, without_comments
from tidings._kit.lazy import install_command

Format = Literal["json", "toml", "yaml"]
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


class NotEditable(ValueError):
    """The file cannot be changed. The message says where and why."""


def edited(text: str, form: Format, section: str, name: str, entry: dict[str, Any]) -> str:
    """Returns the text of a file with this entry under `name` in its section."""
    return _EDITORS[form](text, section, name, entry)


def as_text(form: Format, section: str, name: str, entry: dict[str, Any]) -> str:
    """Returns the entry as it stands in a file that has nothing else in it."""
    if form == "toml":
        return _toml_table(section, name, entry)
    if form == "yaml":
        lines = [f"    {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
        return "\n".join([f"{section}:", f"  {json.dumps(name)}:", *lines])
    return json.dumps({section: {name: entry}}, indent=2, ensure_ascii=False)


def _checked(document: object, section: str) -> dict[str, Any]:
    found = as_dict_or_none(document)
    if found is None or not isinstance(found.get(section) or {}, dict):
        raise NotEditable(f"It must be an object in which {section}, if it is there, is an object, too")
    return found


# JSON


def _edit_json(text: str, section: str, name: str, entry: dict[str, Any]) -> str:
    text = text if text.strip() else "{}\n"
    try:
        document = _checked(parse_with_comments(text)[0], section)
    except NotJson as error:
        raise NotEditable(f"It is not JSON: {error}") from None
    root = without_comments(text).index("{")
    found = next((start for key, start, _ in _members(text, root) if key == section), None)
    place, key, value = (root, section, {name: entry}) if found is None else (found, name, entry)
    made = _with_member(text, place, key, value)
    document.setdefault(section, {})[name] = entry
    if parse_with_comments(made)[0] != document:
        raise NotEditable("Its form is unusual, such as a name that is there twice. Add what --config prints by hand")
    return made


def _members(text: str, start: int) -> Iterator[tuple[str, int, int]]:
    """Yields the key of each member of the object that begins at `start`, and where its value begins and ends."""
    bare, decode, place = without_comments(text), JSONDecoder(strict=False).raw_decode, start + 1
    while bare[place := _past_space(bare, place)] != "}":
        key, place = decode(bare, place)
        begin = _past_space(bare, place)
        _, place = decode(bare, begin)
        yield key, begin, place


def _past_space(text: str, place: int) -> int:
    return place + len(text[place:]) - len(text[place:].lstrip(" \t\r\n,:"))


def _with_member(text: str, start: int, key: str, value: dict[str, Any]) -> str:
    """Returns the text with a member of the object that begins at `start`: instead of the one of this name, or last."""
    members = list(_members(text, start))
    indent = _indent_at(text, members[-1][1] if members else start) + ("" if members else "  ")
    dumped = json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"\n{indent}")
    for name, begin, end in members:
        if name == key:
            return (
                text if json.loads(without_comments(text[begin:end])) == value else text[:begin] + dumped + text[end:]
            )
    added = f"\n{indent}{json.dumps(key, ensure_ascii=False)}: {dumped}"
    if members:
        end = members[-1][2]
        rest = re.sub(r"^(\s*),", r"\1", text[end:], count=1)  # A trailing comma.
        return f"{text[:end]},{added}{rest}"
    rest = text[start + 1 :]
    if not rest.lstrip(" \t").startswith("\n"):
        rest = f"\n{indent[:-2]}{rest.lstrip()}"
    return text[: start + 1] + added + rest


def _indent_at(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip())]


# TOML and YAML


def _edit_toml(text: str, section: str, name: str, entry: dict[str, Any]) -> str:
    try:
        document = _checked(tomllib.loads(text), section)
    except tomllib.TOMLDecodeError as error:
        raise NotEditable(f"It is not TOML: {error}") from None
    servers = document.setdefault(section, {})
    if servers.get(name) == entry:
        return text
    servers[name] = entry
    kept, is_old = list[str](), False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            words = [part.strip("\"' ") for part in line.strip(" [").partition("]")[0].split(".")]
            is_old = words[:2] == [section, name]
        if not is_old:
            kept.append(line)
    rest = "".join(kept).rstrip("\n")
    made = f"{rest}\n\n{_toml_table(section, name, entry)}\n".lstrip("\n")
    with suppress(tomllib.TOMLDecodeError):
        if tomllib.loads(made) == document:
            return made
    raise NotEditable(f"Its entry {section}.{name} is not a table of its own. Remove it by hand")


def _toml_table(section: str, name: str, entry: dict[str, Any]) -> str:
    def shown(value: object) -> str:
        if table := as_dict(value):
            return "{ " + ", ".join(f"{json.dumps(key)} = {shown(each)}" for key, each in table.items()) + " }"
        return json.dumps(value, ensure_ascii=False)

    title = name if _BARE.fullmatch(name) else json.dumps(name)
    return "\n".join([f"[{section}.{title}]", *(f"{key} = {shown(value)}" for key, value in entry.items())])


def _edit_yaml(text: str, section: str, name: str, entry: dict[str, Any]) -> str:
    try:
        from ruamel.yaml import YAML
    except ImportError:
        raise NotEditable(f"To change YAML, ruamel.yaml is needed: {install_command('inspector')}") from None
    yaml: Any = YAML()
    yaml.preserve_quotes, yaml.width = True, 10_000
    try:
        document = _checked(yaml.load(text) or {}, section)
    except NotEditable:
        raise
    except Exception as error:  # noqa: BLE001 - the library raises many kinds
        raise NotEditable(f"It is not YAML: {' '.join(str(error).split())}") from None
    if document.get(section) is None:
        document[section] = {}
    servers = document[section]
    if servers.get(name) == entry:
        return text
    servers[name] = entry
    stream = io.StringIO()
    yaml.dump(document, stream)
    return stream.getvalue()


_EDITORS: Final = {"json": _edit_json, "toml": _edit_toml, "yaml": _edit_yaml}

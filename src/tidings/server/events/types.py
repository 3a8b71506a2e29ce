"""`EventType`: an event that authors declare, or that every live server has. `Event`: one that happened."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tidings._kit.suggest import did_you_mean, there_are
from tidings.bus.streams import Retention
from tidings.changes import FEATURES, Change, Filter, ResourceUpdated
from tidings.server.events.messages import MODES, Json, invalid

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_\-]*(\.[A-Za-z0-9_\-]+)*")
_LONGEST_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class Event:
    """An event at its place: its reader has everything up to `cursor`."""

    id: str
    at: float
    data: Any
    cursor: str
    about: str = ""
    """The URI for which permission is asked, beside that for the type."""


@runtime_checkable
class _Matches(Protocol):
    def matches(self, payload: Any, /) -> bool: ...


class NoArguments(BaseModel):
    """The arguments of a type that has none."""

    model_config = ConfigDict(extra="forbid")


class _ResourceArguments(BaseModel):
    model_config = ConfigDict(extra="forbid")

    uri: str = Field(description="The URI of a resource, or a prefix of URIs that ends in '*'.")


class _ResourcePayload(BaseModel):
    uri: str = Field(description="The URI of the resource that has changed. Read it to see its content now.")


class _NoPayload(BaseModel):
    pass


@dataclass(frozen=True, slots=True)
class EventType:
    """The name of an event, its payload, and the arguments that a subscriber may give."""

    name: str
    description: str
    payload: type[BaseModel]
    arguments: type[BaseModel] = NoArguments
    retention: Retention = field(default_factory=Retention)
    change: Change | None = None
    """The change of the log that it stands for, if it is not an author's."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > _LONGEST_NAME:
            raise ValueError(
                f"{self.name!r} is not a valid name of an event. Use letters, digits, '_', '-' and dots, "
                f"for example 'order.created', at most {_LONGEST_NAME} characters."
            )

    @property
    def uri(self) -> str:
        """The URI for which permission is asked: `authorize(ctx, "event:order.created")`."""
        return f"event:{self.name}"

    def described(self) -> Json:
        return {
            "name": self.name,
            "description": self.description,
            "delivery": list(MODES),
            "inputSchema": _schema(self.arguments),
            "payloadSchema": _schema(self.payload),
        }

    def checked(self, arguments: Json) -> BaseModel:
        """Returns the arguments of a subscriber. Raises `MCPError`."""
        fields = self.arguments.model_fields
        known = [each.alias or name for name, each in fields.items()]
        unknown = [name for name in arguments if name not in known]
        if unknown and self.arguments.model_config.get("extra") != "allow":
            hint = did_you_mean(unknown[0], known) or there_are(known)
            raise invalid(f"The event {self.name!r} has no argument {unknown[0]!r}.{hint}")
        try:
            return self.arguments.model_validate(arguments)
        except ValidationError as error:
            raise invalid(f"Invalid arguments for the event {self.name!r}: {problems(error)}") from None

    def dumped(self, payload: BaseModel | Mapping[str, Any]) -> Json:
        """Returns a payload as JSON. Raises `ValueError` if it is not one of this type."""
        given = payload.model_dump(by_alias=True) if isinstance(payload, BaseModel) else payload
        try:
            return self.payload.model_validate(given).model_dump(mode="json", by_alias=True)
        except ValidationError as error:
            raise ValueError(f"This is no payload of the event {self.name!r}: {problems(error)}") from error

    def matcher(self, arguments: BaseModel) -> Callable[[Event], bool]:
        """Returns the function that decides whether a subscriber wants an event.

        Its arguments decide, if their class has a method `matches`. Otherwise each that is given has to equal the field
        of the payload with its name.
        """
        if isinstance(arguments, _Matches):
            decide, model = arguments.matches, self.payload
            return lambda event: bool(decide(model.model_validate(event.data)))
        wanted = arguments.model_dump(mode="json", by_alias=True, exclude_none=True).items()
        if not wanted:
            return lambda event: True
        return lambda event: all(event.data.get(name) == value for name, value in wanted)


def is_model(value: object) -> bool:
    """Returns whether a value is a pydantic model class."""
    return isinstance(value, type) and issubclass(value, BaseModel)


def problems(error: ValidationError) -> str:
    """Returns what is wrong, without the values that were given."""
    return "; ".join(
        f"{'.'.join(map(str, item['loc'])) or 'value'}: {item['msg']}"
        for item in error.errors(include_url=False, include_input=False)[:5]
    )


def _schema(model: type[BaseModel]) -> Json:
    schema = model.model_json_schema()
    return {"type": "object", "properties": {}, **{key: each for key, each in schema.items() if key != "title"}}


RESOURCE_UPDATED: Final = "resource.updated"


def log_types(offered: Mapping[str, bool], templates: list[str]) -> list[EventType]:
    """Returns the types that stand for changes in the log, for what a server offers: resources, tools, prompts."""
    found: list[EventType] = []
    if offered["resources"]:
        of = f" Resources: {', '.join(templates[:20])}." if templates else ""
        text = f"A resource has changed. Changes of one resource that follow each other may be one event.{of}"
        any_resource = ResourceUpdated("*")
        found.append(EventType(RESOURCE_UPDATED, text, _ResourcePayload, _ResourceArguments, change=any_resource))
    for feature, change in FEATURES.items():
        if offered[feature]:
            text = f"The list of {feature} has changed."
            found.append(EventType(f"{feature}.list_changed", text, _NoPayload, change=change))
    return found


def filter_of(kind: EventType, arguments: BaseModel) -> Filter:
    """Returns the changes of the log that a subscriber wants. Raises `InvalidUri`."""
    if isinstance(arguments, _ResourceArguments):
        return Filter.of([arguments.uri])
    tools, prompts, resources = (change == kind.change for change in FEATURES.values())
    return Filter(tools=tools, prompts=prompts, resources=resources)

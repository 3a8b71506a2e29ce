"""The tools whose questions the SDK asks in the way of either era: forms for the user, samples from the model."""

from typing import Annotated, Any, Literal

from mcp.server.mcpserver import AcceptedElicitation, Elicit, ElicitationResult, MCPServer, Resolve, Sample
from mcp_types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Person(BaseModel):
    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


class Defaults(BaseModel):
    """A default for each primitive type (SEP-1034)."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


def titled(**titles: str) -> list[dict[str, str]]:
    return [{"const": value, "title": title} for value, title in titles.items()]


def extra(**schema: Any) -> Any:
    return Field(json_schema_extra=schema)


class Choices(BaseModel):
    """Each way of writing an enumeration (SEP-1330)."""

    model_config = ConfigDict(alias_generator=to_camel)

    untitled_single: Literal["option1", "option2", "option3"]
    titled_single: str = extra(oneOf=titled(value1="First Option", value2="Second Option", value3="Third Option"))
    legacy_enum: Literal["opt1", "opt2", "opt3"] = extra(enumNames=["Option One", "Option Two", "Option Three"])
    untitled_multi: list[Literal["option1", "option2", "option3"]]
    titled_multi: list[str] = extra(
        items={"anyOf": titled(value1="First Choice", value2="Second Choice", value3="Third Choice")}
    )


def ask_person(message: str) -> Elicit[Person]:
    return Elicit(message, Person)


def ask_defaults() -> Elicit[Defaults]:
    return Elicit("Please review the defaults", Defaults)


def ask_choices() -> Elicit[Choices]:
    return Elicit("Please choose", Choices)


def ask_model(prompt: str) -> Sample:
    return Sample([SamplingMessage(role="user", content=TextContent(text=prompt))], max_tokens=100)


def ask_greeting() -> Sample:
    return ask_model("Generate a greeting")


def outcome(answer: ElicitationResult[Any]) -> str:
    content = answer.data.model_dump_json() if isinstance(answer, AcceptedElicitation) else "{}"
    return f"action={answer.action}, content={content}"


def spoken(answer: CreateMessageResult) -> str:
    return answer.content.text if isinstance(answer.content, TextContent) else f"<{answer.content.type}>"


def add_forms(mcp: MCPServer) -> None:
    @mcp.tool()
    async def test_elicitation(message: str, answer: Annotated[ElicitationResult[Person], Resolve(ask_person)]) -> str:
        """Asks the user who they are."""
        return f"{message}: {outcome(answer)}"

    @mcp.tool()
    async def test_elicitation_sep1034_defaults(
        answer: Annotated[ElicitationResult[Defaults], Resolve(ask_defaults)],
    ) -> str:
        """Asks with a default for each type."""
        return f"Elicitation completed: {outcome(answer)}"

    @mcp.tool()
    async def test_elicitation_sep1330_enums(
        answer: Annotated[ElicitationResult[Choices], Resolve(ask_choices)],
    ) -> str:
        """Asks with each kind of enumeration."""
        return f"Elicitation completed: {outcome(answer)}"

    @mcp.tool()
    async def test_sampling(prompt: str, answer: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
        """Asks the client's model."""
        return f"LLM response to {prompt!r}: {spoken(answer)}"

    @mcp.tool()
    async def test_missing_capability(answer: Annotated[CreateMessageResult, Resolve(ask_greeting)]) -> str:
        """Cannot do without the client's model."""
        return spoken(answer)

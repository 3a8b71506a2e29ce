"""The tools, resources and prompts that only answer: one for each kind of content."""

import io
import struct
import wave
import zlib

from mcp.server.mcpserver import Audio, Image, MCPServer, UserMessage
from mcp_types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    EmbeddedResource,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)


def red_pixel() -> bytes:
    """A PNG of one red pixel."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\x00\xff\x00\x00")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def silence() -> bytes:
    """A WAV of a hundredth of a second of nothing."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8_000)
        sound.writeframes(bytes(160))
    return buffer.getvalue()


def embedded(uri: str, text: str, mime_type: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def add_tools(mcp: MCPServer) -> None:
    @mcp.tool(structured_output=False)
    def test_simple_text() -> str:
        """Returns text."""
        return "This is a simple text response for testing."

    @mcp.tool(structured_output=False)
    def test_image_content() -> Image:
        """Returns an image."""
        return Image(data=red_pixel(), format="png")

    @mcp.tool(structured_output=False)
    def test_audio_content() -> Audio:
        """Returns a sound."""
        return Audio(data=silence(), format="wav")

    @mcp.tool(structured_output=False)
    def test_embedded_resource() -> EmbeddedResource:
        """Returns a resource inside the result."""
        return embedded("test://embedded-resource", "This is an embedded resource content.")

    @mcp.tool(structured_output=False)
    def test_multiple_content_types() -> list[TextContent | Image | EmbeddedResource]:
        """Returns text, an image and a resource."""
        resource = embedded("test://mixed-content-resource", '{"test":"data","value":123}', "application/json")
        return [TextContent(text="Multiple content types test:"), Image(data=red_pixel(), format="png"), resource]


def add_resources(mcp: MCPServer) -> None:
    @mcp.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """A text that stays the same."""
        return "This is the content of the static text resource."

    @mcp.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """An image that stays the same."""
        return red_pixel()

    @mcp.resource("test://watched-resource", mime_type="text/plain")
    def watched_resource() -> str:
        """A text worth a subscription."""
        return "Watched resource content."

    @mcp.resource("test://template/{id}/data", mime_type="application/json")
    def template_data(id: str) -> dict[str, str | bool]:  # noqa: A002  (the suite names the variable)
        """Data by its id."""
        return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


def add_prompts(mcp: MCPServer) -> None:
    @mcp.prompt()
    def test_simple_prompt() -> str:
        """A prompt without arguments."""
        return "This is a simple prompt for testing."

    @mcp.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """A prompt with two arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @mcp.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803  (the suite's name)
        """A prompt with a resource in it."""
        resource = embedded(resourceUri, "Embedded resource content for testing.")
        return [UserMessage(resource), UserMessage("Please process the embedded resource above.")]

    @mcp.prompt()
    def test_prompt_with_image() -> list[UserMessage]:
        """A prompt with an image in it."""
        image = Image(data=red_pixel(), format="png")
        return [UserMessage(image), UserMessage("Please analyze the image above.")]


def add_completion(mcp: MCPServer) -> None:
    words = {
        "test_prompt_with_arguments": ("paris", "park", "party", "testing", "tests"),
        "test://template/{id}/data": ("1", "12", "123"),
    }

    @mcp.completion()
    async def complete(
        ref: PromptReference | ResourceTemplateReference, argument: CompletionArgument, _: CompletionContext | None
    ) -> Completion:
        about = ref.name if isinstance(ref, PromptReference) else ref.uri
        values = [word for word in words.get(about, ()) if word.startswith(argument.value)]
        return Completion(values=values, total=len(values), has_more=False)


def add_content(mcp: MCPServer) -> None:
    add_tools(mcp)
    add_resources(mcp)
    add_prompts(mcp)
    add_completion(mcp)

"""Runs an agent of the examples with a scripted model, which says what it was asked, and waits for a line to answer.

python -m tests.examples.woken EXAMPLE URL FOLDER    with its state in the folder
"""

import asyncio
import json
import os
import runpy
import sys
from typing import Any

from tests.examples.programs import EXAMPLES


def answer(asked: list[str]) -> str:
    """Says how many messages of the user the model is shown, and the last."""
    sys.stdout.write(json.dumps({"number": len(asked), "last": asked[-1]}) + "\n")
    sys.stdout.flush()
    return sys.stdin.readline().strip()


def pydantic_ai() -> Any:
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, UserPromptPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def respond(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        parts = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
        return ModelResponse(parts=[TextPart(answer([str(part.content) for part in parts]))])

    return FunctionModel(respond)


def langgraph() -> Any:
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
            asked = [str(message.content) for message in messages if isinstance(message, HumanMessage)]
            return ChatResult(generations=[ChatGeneration(message=AIMessage(answer(asked)))])

    return Scripted()


def openai_agents() -> Any:
    from agents import Model, ModelResponse, Usage, set_tracing_disabled
    from openai.types.responses import ResponseOutputMessage, ResponseOutputText

    set_tracing_disabled(disabled=True)

    class Scripted(Model):
        async def get_response(self, **options: Any) -> ModelResponse:  # type: ignore[override]
            given = options["input"]
            items = [{"role": "user", "content": given}] if isinstance(given, str) else given
            said = answer([item["content"] for item in items if item.get("role") == "user"])
            text = ResponseOutputText(annotations=[], text=said, type="output_text")
            message = ResponseOutputMessage(
                id="1", content=[text], role="assistant", status="completed", type="message"
            )
            return ModelResponse(output=[message], usage=Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    return Scripted()


MODELS = {"pydantic_ai": pydantic_ai, "langgraph": langgraph, "openai_agents": openai_agents}


if __name__ == "__main__":
    os.chdir(sys.argv[3])
    example = runpy.run_path(str(EXAMPLES / f"woken_agent/wake_{sys.argv[1]}.py"))
    asyncio.run(example["main"](sys.argv[2], MODELS[sys.argv[1]](), 0))

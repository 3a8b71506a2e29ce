"""What a long list of subscriptions costs: counted in comparisons, which no machine makes quicker or slower."""

from types import SimpleNamespace
from typing import Any, ClassVar, cast

import anyio
import pytest

from tidings.bus.memory import MemoryBus
from tidings.server.config import Limits
from tidings.server.core import Core
from tidings.server.modern import ModernEra
from tidings.server.policy import Policy

pytestmark = pytest.mark.anyio


class CountedText(str):
    """A text that counts how often one is compared with another."""

    __slots__ = ()
    compared: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        CountedText.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


async def test_a_long_list_of_what_is_not_there_is_refused_without_comparing_each_with_each() -> None:
    policy = Policy(
        limits=Limits(),
        authorize=lambda ctx, uri: True,
        missing=lambda asked: [uri for uri in asked if not uri.endswith("there")],
    )
    names = [CountedText(f"note://{number}") for number in range(2_000)]
    asked: Any = SimpleNamespace(
        resource_subscriptions=[*names, "note://there"],
        tools_list_changed=True,
        prompts_list_changed=None,
        resources_list_changed=None,
    )
    CountedText.compared = 0
    with anyio.fail_after(10):
        honoured = await ModernEra(Core(MemoryBus(), policy))._honoured(cast("Any", None), asked)
    assert honoured.subscriptions == {"note://there"}
    assert honoured.tools
    assert CountedText.compared < 10 * len(names)

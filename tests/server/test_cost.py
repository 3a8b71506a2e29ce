"""What long lists of subscriptions cost: counted in comparisons, which no machine makes quicker or slower."""

from typing import Any, ClassVar, cast

import anyio
import pytest
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resources import TextResource

from tests.server.doubles import Reader
from tidings.changes import Filter, ResourceUpdated
from tidings.server.adapters import McpServerAdapter
from tidings.server.config import Limits
from tidings.server.hub import Hub
from tidings.server.policy import SubscriptionPolicy

pytestmark = pytest.mark.anyio

MANY = 2_000


class CountedText(str):
    """A text that counts how often one is compared with another."""

    __slots__ = ()
    compared: ClassVar[int] = 0

    def __eq__(self, other: object) -> bool:
        CountedText.compared += 1
        return super().__eq__(other)

    def __lt__(self, other: str) -> bool:
        CountedText.compared += 1
        return super().__lt__(other)

    def __gt__(self, other: str) -> bool:
        CountedText.compared += 1
        return super().__gt__(other)

    def startswith(self, *arguments: Any) -> bool:
        CountedText.compared += 1
        return super().startswith(*arguments)

    __hash__ = str.__hash__


class CountedGroups(dict[str, Any]):
    """A dict that counts how often something is looked up in it."""

    looked_up = 0

    def get(self, key: str, default: Any = None) -> Any:
        self.looked_up += 1
        return super().get(key, default)


@pytest.fixture(autouse=True)
def from_nought() -> None:
    CountedText.compared = 0


async def test_a_long_list_of_what_is_not_there_is_refused_without_comparing_each_with_each() -> None:
    policy = SubscriptionPolicy(
        limits=Limits(),
        authorize=lambda ctx, uri: True,
        missing=lambda asked: [uri for uri in asked if not uri.endswith("there")],
    )
    names = [CountedText(f"note://{number}") for number in range(MANY)]
    with anyio.fail_after(10):
        assert await policy.accepted(cast("Any", None), [*names, "note://there"]) == ["note://there"]
    assert CountedText.compared < 10 * len(names)


@pytest.mark.parametrize("there", [True, False])
def test_many_prefixes_and_many_resources_are_not_compared_each_with_each(there: bool) -> None:
    mcp = MCPServer[Any]("many")
    for number in range(MANY):
        uri = CountedText(f"note://{number:06}")
        mcp._resource_manager._resources[uri] = TextResource(uri=uri, name=uri, text="")
    CountedText.compared = 0
    asked = [f"note://{number:06}{'' if there else 'x'}*" for number in range(MANY)]
    assert McpServerAdapter(mcp).missing(asked) == ([] if there else asked)
    assert CountedText.compared < 50 * MANY


def test_a_long_filter_of_prefixes_is_not_asked_one_by_one_what_a_listener_missed() -> None:
    wanted = Filter(prefixes=frozenset(CountedText(f"note://{number:06}/") for number in range(MANY)))
    missed = [ResourceUpdated(CountedText(f"note://{number:06}/x")) for number in range(0, 2 * MANY, 2)]
    assert [wanted.wants(change) for change in missed] == [True] * (MANY // 2) + [False] * (MANY // 2)
    assert CountedText.compared < 50 * MANY


def test_publishing_looks_up_no_more_prefixes_than_the_uri_is_long() -> None:
    hub = Hub()
    hub.add(Reader(*(f"note://q{'a' * length}*" for length in range(MANY))))
    groups = hub._groups = CountedGroups(hub._groups)
    change = ResourceUpdated("note://zzz")
    assert not hub.interested(change)
    assert groups.looked_up <= len(change.uri) + 1

"""Who wants what: random walks compared with asking every subscriber's filter."""

from collections.abc import Collection

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.server.doubles import Log, Reader
from tidings.changes import Change, Cursor, Filter, ResourceUpdated, ToolsListChanged
from tidings.server.hub import Hub
from tidings.server.subscriber import FEATURES, Feature, Frame, Subscriber

# Few and alike, so that URIs, prefixes and prefixes of prefixes meet; some are longer than any URI, some are empty.
URIS = ["a:", "a:b", "a:bc", "a:b/c", "b:", "b:æ", "b:🎈/x", "a:b*"]
PREFIXES = ["*", "a*", "a:*", "a:b*", "a:bc*", "a:b/*", "b:æ*", "b:🎈/xyz/long*"]
CHANGES: list[Change] = [*map(ResourceUpdated, URIS), *FEATURES.values()]

subscriptions = st.sampled_from([*URIS[:-1], *PREFIXES])
features = st.sets(st.sampled_from(sorted(FEATURES)))


def wanted_by(subscriber: Subscriber) -> Filter:
    return Filter.of(subscriber.subscriptions, **dict.fromkeys(subscriber.features, True))


class Walk(RuleBasedStateMachine):
    """Subscribers come, go and change their minds. The model is the list of them, each asked by its filter."""

    def __init__(self) -> None:
        super().__init__()
        self.watched: list[str] = []
        self.hub = Hub(self.want)
        self.here: list[Reader] = []

    def want(self, subscription: str, wanted: bool) -> None:
        if wanted:
            assert subscription not in self.watched
            self.watched.append(subscription)
        else:
            self.watched.remove(subscription)

    @rule(names=st.sets(subscriptions, max_size=5), features=features)
    def come(self, names: set[str], features: set[Feature]) -> None:
        self.here.append(reader := Reader(*names, features=sorted(features)))
        self.hub.add(reader)

    @precondition(lambda self: self.here)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        reader = data.draw(st.sampled_from(self.here))
        self.here.remove(reader)
        assert self.hub.remove(reader) is True
        assert self.hub.remove(reader) is False

    @precondition(lambda self: self.here)
    @rule(data=st.data(), name=subscriptions)
    def subscribe(self, data: st.DataObject, name: str) -> None:
        reader = data.draw(st.sampled_from(self.here))
        self.hub.subscribe(reader, name)
        assert name in reader.subscriptions

    @precondition(lambda self: self.here)
    @rule(data=st.data(), name=subscriptions)
    def unsubscribe(self, data: st.DataObject, name: str) -> None:
        reader = data.draw(st.sampled_from(self.here))
        was_there = name in reader.subscriptions
        assert self.hub.unsubscribe(reader, name) is was_there
        assert name not in reader.subscriptions

    @invariant()
    def finds_those_whose_filter_wants_a_change_each_once(self) -> None:
        for change in CHANGES:
            assert counted(self.hub.interested(change)) == counted([r for r in self.here if wanted_by(r).wants(change)])

    @invariant()
    def counts_and_names_those_who_are_here(self) -> None:
        assert len(self.hub) == len(self.here)
        assert list(self.hub) == self.here
        assert all(reader in self.hub for reader in self.here)
        assert self.hub.subscriptions() == {
            name: sum(name in reader.subscriptions for reader in self.here)
            for name in set().union(*(reader.subscriptions for reader in self.here))
        }

    @invariant()
    def has_told_of_every_first_and_last(self) -> None:
        assert sorted(self.watched) == sorted(self.hub.subscriptions())

    def teardown(self) -> None:
        for reader in self.here:
            self.hub.remove(reader)
        assert nothing_is_left(self.hub)
        assert self.watched == []


def counted(subscribers: Collection[Subscriber]) -> list[int]:
    return sorted(subscriber.id for subscriber in subscribers)


def nothing_is_left(hub: Hub) -> bool:
    return not (hub._all or hub._groups or hub._prefix_lengths or any(hub._features.values()))


@pytest.mark.parametrize("walks", [15, pytest.param(100, marks=pytest.mark.thorough)])
def test_a_hub_agrees_with_asking_everybody(walks: int) -> None:
    run_state_machine_as_test(Walk, settings=settings(max_examples=walks, stateful_step_count=30))


class Shy(Reader):
    """Knows whether anybody looked at it: called it, or asked it anything."""

    looked_at = False

    def __getattribute__(self, name: str) -> object:
        if name not in {"looked_at", "__dict__", "__class__"}:
            self.looked_at = True
        return super().__getattribute__(name)

    def __hash__(self) -> int:
        self.looked_at = True
        return super().__hash__()


def test_publishing_looks_at_nobody_but_those_who_are_interested() -> None:
    hub, log = Hub(), Log()
    bystanders = [Shy(f"note://{number}", features=["tools"]) for number in range(50)]
    bystanders += [Shy(f"feed://{number}/*", features=["prompts"]) for number in range(50)]
    interested = [
        Shy("note://news"),
        Shy("note://n*"),
        Shy("note://news", "note://ne*"),
    ]
    for reader in bystanders + interested:
        hub.add(reader)
        reader.looked_at = False

    assert hub.deliver(log.frame("note://news")) == 3

    assert all(reader.looked_at for reader in interested)
    assert not any(reader.looked_at for reader in bystanders)


def test_to_come_to_change_ones_mind_and_to_go_looks_at_nobody_else() -> None:
    hub = Hub()
    others = [Shy("note://news", "note://*", features=["tools"]) for _ in range(50)]
    for reader in others:
        hub.add(reader)
    for reader in others:
        reader.looked_at = False
    reader = Reader("note://news", features=["tools"])

    hub.add(reader)
    hub.subscribe(reader, "note://*")
    hub.unsubscribe(reader, "note://news")
    hub.remove(reader)

    assert not any(other.looked_at for other in others)


def test_a_subscriber_who_asked_twice_over_gets_a_change_once() -> None:
    hub, log = Hub(), Log()
    reader = Reader("note://a", "note://*", "note*", "*")
    hub.add(reader)
    reader.open()
    assert hub.deliver(log.frame("note://a")) == 1
    assert reader.uris == ["note://a"]


def test_a_subscriber_who_leaves_while_a_change_is_handed_out_does_not_disturb_it() -> None:
    hub, log = Hub(), Log()

    class Leaver(Reader):
        def deliver(self, frame: Frame) -> None:
            super().deliver(frame)
            hub.remove(self)

    readers = [Leaver("note://a") for _ in range(3)]
    for reader in readers:
        hub.add(reader)
        reader.open()
    assert hub.deliver(log.frame("note://a")) == 3
    assert [reader.uris for reader in readers] == [["note://a"]] * 3
    assert nothing_is_left(hub)


def test_everyone_is_told_of_all_they_asked_for_when_anything_may_have_changed() -> None:
    hub = Hub()
    plain, wide, idle = Reader("note://a", features=["tools"]), Reader("feed://*"), Reader()
    for reader in (plain, wide, idle):
        hub.add(reader)
        reader.open()
    hub.deliver_everything(Cursor("new", 0), "new:0")
    assert set(plain.written) == {ToolsListChanged(), ResourceUpdated("note://a")}
    assert wide.written == [ResourceUpdated("feed://*")]
    assert idle.written == []


def test_the_audience_of_a_list_a_resource_and_a_prefix_can_be_asked_for() -> None:
    hub = Hub()
    tools, note, notes = Reader(features=["tools"]), Reader("note://a"), Reader("note://*")
    for reader in (tools, note, notes):
        hub.add(reader)
    assert list(hub.audience("tools")) == [tools]
    assert list(hub.audience("prompts")) == []
    assert set(hub.audience("note://a")) == {note, notes}
    assert list(hub.audience("note://*")) == [notes]

"""What does it cost to wait for a change: the tasks of `wait_for_change`, and the looks at them?

Hosts look at each task once a second or so. Nearly all looks find that nothing has changed, so those have to be cheap,
and a wait must not weigh more than the stream of a client that listens.
"""

import statistics
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.lab import MICRO, DeliveryLost, Lab, Subject
from benchmarks.process import Process
from benchmarks.report import TIMES, Row, Target, say

FEW, MANY, PUBLISHED = 100, 1_000, 50
LOOKS = 2_000
LIGHT = Target(1, "most", TIMES)
CHEAP = Target(1_000, "most", " µs")
NEVER = Target(0, "most")
TENTH = Target(0.1, "most")
INDEPENDENT = Target(1.2, "most", TIMES)


def measure(lab: Lab) -> list[Row]:
    return [_weight(lab), *_looks(lab), _interest(lab)]


@contextmanager
def _waiting(lab: Lab, waits: int, *options: str) -> Generator[tuple[Subject, Process]]:
    """A server with so many waits, each for a URI of its own."""
    with lab.serve("tidings", *options, name=f"waking-{waits}") as subject, Process("benchmarks.waiter") as waiter:
        waiter.answer(30)
        uris = [f"bench://own/{number}" for number in range(waits)]
        started = waiter.ask("wait", 600, port=subject.port, uris=uris)["waits"]
        if started != waits:
            raise DeliveryLost(f"{started} of {waits} waits have begun")
        yield subject, waiter


def _weight(lab: Lab) -> Row:
    count = lab.size.waits
    say(f"waking: {count:,} waits")
    with _waiting(lab, 1) as (subject, waiter):
        before = subject.server.ask("memory")["resident"]
        waiter.ask("wait", 600, port=subject.port, uris=[f"bench://own/{number}" for number in range(count)])
        _look(waiter, count + 1)
        wait = (subject.server.ask("memory")["resident"] - before) / count / 1000
    say(f"waking: {count:,} streams")
    with lab.serve("tidings", name="waking-streams") as subject:
        subject.open("modern", [["bench://own/0"]])
        before = subject.server.ask("memory")["resident"]
        subject.open("modern", [[f"bench://own/{number}"] for number in range(count)])
        stream = (subject.server.ask("memory")["resident"] - before) / count / 1000
    return Row(
        "waking",
        f"KB a pending wait, {count:,} waits",
        tidings=wait,
        others={"listen streams": stream},
        value=wait / stream,
        target=LIGHT,
        note="compared with as many streams that are subscribed to a URI each",
    )


def _looks(lab: Lab) -> list[Row]:
    seconds = 2 * lab.size.repetitions  # In which each look goes the whole way once, if they are 30.
    with TemporaryDirectory() as folder, ExitStack() as stack:
        bus = f"sqlite:///{Path(folder, 'bus.db')}"
        subject, waiter = stack.enter_context(_waiting(lab, MANY, "--bus", bus))
        sdk = stack.enter_context(lab.serve("sdk-modern", name="waking-sdk"))
        reader = stack.enter_context(Process("benchmarks.waiter"))
        reader.answer(30)
        _look(waiter, LOOKS)
        looks: list[float] = []
        reads: list[float] = []
        asked = subject.server.ask("bus")["asked"]
        for number in range(lab.size.repetitions):
            say(f"waking: looks, repetition {number + 1} of {lab.size.repetitions}")
            before = subject.cpu()
            _look(waiter, LOOKS)
            looks.append((subject.cpu() - before) / LOOKS * MICRO)
            before = sdk.cpu()
            reader.ask("read", 120, port=sdk.port, uri="bench://own/0", times=LOOKS)
            reads.append((sdk.cpu() - before) / LOOKS * MICRO)
        asked = subject.server.ask("bus")["asked"] - asked
        say(f"waking: {MANY:,} waits, looked at once a second for {seconds} s")
        before = subject.cpu()
        _look(waiter, MANY * seconds, rate=MANY)
        share = (subject.cpu() - before) / seconds  # Of as many looks, however long a busy machine took for them.
    look = statistics.median(looks)
    return [
        Row(
            "waking",
            "CPU µs of a look at a task that waits",
            sdk=statistics.median(reads),
            tidings=look,
            value=look,
            target=CHEAP,
            note="SDK: resources/read, the least that a client asks for",
        ),
        Row(
            "waking",
            f"times that {LOOKS * lab.size.repetitions:,} such looks ask the bus",
            tidings=asked,
            value=asked,
            target=NEVER,
            note="the bus is a file",
        ),
        Row(
            "waking",
            f"share of a core, {MANY:,} waits that are looked at once a second",
            tidings=share,
            value=share,
            target=TENTH,
        ),
    ]


def _look(waiter: Process, looks: int, rate: float | None = None) -> None:
    """Looks at tasks, all of which still wait."""
    answer = waiter.ask("look", 600, looks=looks, rate=rate)
    if answer["statuses"] != {"working": looks}:
        raise DeliveryLost(f"tasks that wait have ended: {answer['statuses']}")


def _interest(lab: Lab) -> Row:
    uris, events = [f"bench://own/{number}" for number in range(PUBLISHED)], lab.size.interest
    samples: dict[int, list[float]] = {FEW: [], MANY: []}
    with ExitStack() as stack:
        subjects = {waits: stack.enter_context(_waiting(lab, waits))[0] for waits in samples}
        for number in range(lab.size.repetitions + 1):
            say(f"waking: changes, repetition {number} of {lab.size.repetitions}")
            for waits, subject in subjects.items():
                before = subject.cpu()
                subject.server.ask("publish", uris=uris, times=events)
                if number:  # the first round warms up
                    samples[waits].append((subject.cpu() - before) / events * MICRO)
    return Row(
        "waking",
        f"CPU µs a change for 1 of {MANY:,} waits",
        tidings=statistics.median(samples[MANY]),
        others={f"of {FEW} waits": statistics.median(samples[FEW])},
        value=statistics.median(many / few for many, few in zip(samples[MANY], samples[FEW], strict=True)),
        target=INDEPENDENT,
        note=f"{MANY:,} / {FEW} waits",
    )

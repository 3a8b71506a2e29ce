"""What is left after a burst? 10,000 changes of 100 URIs, to 100 healthy readers of all of them.

A notification has no content: it makes its reader read again. So a subscription is fresh if a notification arrived
after the last change of its URI, and stale if not.
"""

from dataclasses import dataclass

from benchmarks.lab import MICRO, Lab
from benchmarks.report import Row, Target, say

URIS = 100
NONE = Target(0, "most")


@dataclass(frozen=True)
class Outcome:
    """What a burst left behind."""

    ended: int
    stale: int
    differing: int
    arrived: int
    cost: float


def measure(lab: Lab) -> list[Row]:
    sdk = _burst(lab, "sdk-modern")
    tidings = _burst(lab, "tidings", "--merging")
    # A publisher that gives way after each change lets windows end and frames go out in between: to be survived, too.
    giving_way = _burst(lab, "tidings", "--merging", pause=True)
    ended = tidings.ended + giving_way.ended
    stale = sum(outcome.stale + outcome.differing for outcome in (tidings, giving_way))
    what = f"burst of {lab.size.burst:,}"
    sent, subscriptions = lab.size.burst * lab.size.burst_streams, lab.size.burst_streams * URIS
    return [
        Row("burst", f"{what}: CPU µs an event", sdk=sdk.cost, tidings=tidings.cost, value=sdk.cost / tidings.cost),
        Row("burst", f"{what}: notifications of {sent:,}", sdk=sdk.arrived, tidings=tidings.arrived),
        Row("burst", f"{what}, giving way after each: CPU µs an event", tidings=giving_way.cost),
        Row("burst", f"{what}, giving way after each: notifications", tidings=giving_way.arrived),
        Row("burst", f"{what}: streams ended", sdk=sdk.ended, tidings=ended, value=ended, target=NONE),
        Row(
            "burst",
            f"{what}: stale of {subscriptions:,}",
            sdk=sdk.stale,
            tidings=stale,
            value=stale,
            target=NONE,
            note="subscriptions with an old copy in the end",
        ),
    ]


def _burst(lab: Lab, variant: str, *options: str, pause: bool = False) -> Outcome:
    say(f"burst: {lab.size.burst:,} changes of {URIS} URIs to {lab.size.burst_streams} streams on {variant}")
    uris = [f"bench://burst/{number}" for number in range(URIS)]
    with lab.serve(variant, *options, name=f"burst-{variant}") as subject:
        subject.open("modern", [uris] * lab.size.burst_streams)
        before = subject.cpu()
        changed = subject.server.ask("publish", 120, uris=uris, times=lab.size.burst, pause=pause)["changed"]
        lab.reader.ask("settle", group=subject.name, within=50)
        cost = (subject.cpu() - before) / lab.size.burst * MICRO
        counts = lab.reader.ask("counts", group=subject.name)
        fresh = lab.reader.ask("freshness", group=subject.name, published=changed)
    return Outcome(counts["ended"], fresh["stale"], fresh["differing"], counts["delivered"], cost)

"""A clock that stepped back, put right.

What lasts for a time ends at a moment that was reckoned by the clock. If the clock steps back, that moment is further
away than it was ever meant to be: a page would not be looked at for as long as the step, a dead process would keep its
claims. So an end that is too far ahead is brought back to what it was meant to be, counted from now.

May import: `moment`.
"""

from typing import Final

from tidings.web.store.moment import Moment

_SETTLE: Final = (
    "UPDATE entries SET expires_at = :now + ttl WHERE expires_at > :now + ttl",
    "UPDATE watches SET next_at = :now + wait WHERE next_at > :now + wait",
    "UPDATE watches SET lease_until = :now + lease WHERE lease_until > :now + lease",
    "UPDATE owners SET alive_until = :now + alive WHERE alive_until > :now + alive",
)


def settle(at: Moment) -> None:
    """Bring back what is too far ahead."""
    for statement in _SETTLE:
        at.do(statement, now=at.now)

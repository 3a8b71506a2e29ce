"""A clock that stepped back, put right.

What lasts for a time ends at a moment that was reckoned by the clock. If the clock steps back, that moment is further
away than it was ever meant to be: a page would not be looked at for as long as the step, a dead process would keep its
claims. So an end that is too far ahead is brought back to what it was meant to be, counted from now.

May import: `moment`.
"""

from typing import Final

from tidings.web.store.moment import Moment

_SETTLE: Final = (
    "UPDATE entries SET expires_at = ?1 + ttl WHERE expires_at > ?1 + ttl",
    "UPDATE watches SET next_at = ?1 + wait WHERE next_at > ?1 + wait",
    "UPDATE watches SET lease_until = ?1 + lease WHERE lease_until > ?1 + lease",
    "UPDATE owners SET alive_until = ?1 + alive WHERE alive_until > ?1 + alive",
)


def settle(at: Moment) -> None:
    """Bring back what is too far ahead."""
    for statement in _SETTLE:
        at.do(statement, at.now)

"""What somebody meant who wrote a name that there is not."""

import difflib
from collections.abc import Iterable
from itertools import islice
from typing import Final

# Beyond these, looking for what is near takes longer than anybody waits for it; names come from servers, too.
_MOST: Final = 2_000
_LONGEST: Final = 200


def near(name: str, names: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Those of the names that are written nearly so, in whatever case, the nearest first."""
    some = {each.casefold(): each for each in islice(names, _MOST) if len(each) <= _LONGEST}
    found = difflib.get_close_matches(name[:_LONGEST].casefold(), some, n=most, cutoff=cutoff)
    return [some[each] for each in found]

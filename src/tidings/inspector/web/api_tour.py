"""The tour, where there is one (`tidings demo`): its steps, and doing one of them."""

from typing import Any, Final

from starlette.requests import Request
from starlette.routing import Route

from tidings.inspector.web.answers import Problem, endpoint
from tidings.inspector.web.inspector import Guide, of


async def tour(request: Request) -> dict[str, Any]:
    """The steps, and what was seen of each."""
    return _guide(request).facts()


async def do(request: Request) -> None:
    """Do a step. The tour tells what came of it."""
    step = request.path_params["step"]
    try:
        begun = _guide(request).do(step)
    except KeyError:
        raise Problem(404, "no-such-step", f"There is no step {step!r}.") from None
    if not begun:
        raise Problem(409, "starting", "The servers are about to start.", "Try again in a moment.", who="this program")


def _guide(request: Request) -> Guide:
    guide = of(request).guide
    if guide is None:
        raise Problem(404, "no-tour", "There is no tour here.", "`tidings demo` has one.")
    return guide


ROUTES: Final = [
    Route("/api/tour", endpoint(tour)),
    Route("/api/tour/{step}", endpoint(do), methods=["POST"]),
]

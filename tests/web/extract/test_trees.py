"""Trees give the numbers they were written with, and only for the features they were fitted with."""

import pytest

from tidings.web.extract.html.choose import compiled, loaded, model, shares

TREE = [0, 1.5, -1.0, [1, 0.5, 2, 3.0]]


@pytest.mark.parametrize(("row", "sum_"), [([1.5, 9], -1.0), ([2, 0.5], 2.0), ([2, 0.6], 3.0)])
def test_a_tree_leads_to_a_leaf(row: list[float], sum_: float) -> None:
    assert compiled([TREE, 0.25])(row) == sum_ + 0.25


def test_shares_add_up() -> None:
    found = shares([compiled([0.0]), compiled([0.0, 1.0])], [])
    assert sum(found) == pytest.approx(1)
    assert found[1] > found[0]


def test_the_model_of_this_version_fits_its_features() -> None:
    assert len(model().kinds) == 7
    assert all(0 <= value <= 1 for value in model().names.values())


def test_a_model_for_other_features_is_refused() -> None:
    with pytest.raises(ValueError, match="fit it again"):
        loaded({"features": ["another"]})


def test_a_model_can_hold_nothing_but_numbers() -> None:
    with pytest.raises(ValueError, match="could not convert"):
        compiled(["__import__('os')"])  # type: ignore[list-item]

"""Webhooks as Standard Webhooks has them: secrets, signatures, and what a receiver must refuse."""

import base64

import pytest

from tidings._kit.event_wire import complaint, new_secret, secret_key, signature

SECRET = "whsec_a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2s="
KEY, NOW, BODY = secret_key(SECRET), 1794819600, b'{"a":1}'
SIGNATURE = "v1,5kDhoZ1Xun0fmYAhngAXtHfD00JnnXF9L0bqTR98Vcw="
SENT = {"webhook-id": "evt_1", "webhook-timestamp": str(NOW), "webhook-signature": SIGNATURE}


def test_a_signature_is_that_of_the_published_vector() -> None:
    assert signature("evt_1", NOW, BODY, [KEY]) == SIGNATURE
    assert complaint(SENT, BODY, [KEY], NOW) is None


def test_during_rotation_one_signature_of_several_is_enough_on_either_side() -> None:
    new = secret_key(new_secret())
    both = {**SENT, "webhook-signature": signature("evt_1", NOW, BODY, [new, KEY])}
    assert complaint(both, BODY, [KEY], NOW) is None
    assert complaint(SENT, BODY, [new, KEY], NOW) is None
    assert complaint({**SENT, "webhook-signature": f"v1a,abc v9 {SIGNATURE}"}, BODY, [KEY], NOW) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"webhook-id": "evt_2"},
        {"webhook-id": ""},
        {"webhook-timestamp": str(NOW + 1)},
        {"webhook-timestamp": "soon"},
        {"webhook-timestamp": "²"},
        {"webhook-timestamp": "9" * 5_000},
        {"webhook-timestamp": ""},
        {"webhook-signature": ""},
        {"webhook-signature": SIGNATURE.replace("v1,", "v2,")},
        {"webhook-signature": SIGNATURE[:-3]},
        {"webhook-signature": "v1,ü"},
    ],
)
def test_anything_that_was_changed_on_the_way_is_refused(wrong: dict[str, str]) -> None:
    assert complaint({**SENT, **wrong}, BODY, [KEY], NOW) is not None


def test_a_changed_body_another_key_and_a_missing_header_are_refused() -> None:
    assert complaint(SENT, BODY + b" ", [KEY], NOW) is not None
    assert complaint(SENT, BODY, [secret_key(new_secret())], NOW) is not None
    assert complaint(SENT, BODY, [], NOW) is not None
    for name in SENT:
        assert complaint({key: value for key, value in SENT.items() if key != name}, BODY, [KEY], NOW) is not None


def test_a_timestamp_is_refused_when_it_is_older_or_newer_than_five_minutes() -> None:
    assert complaint(SENT, BODY, [KEY], NOW + 300) is None
    assert complaint(SENT, BODY, [KEY], NOW - 300) is None
    for now in (NOW + 301, NOW - 301):
        assert "clocks" in (complaint(SENT, BODY, [KEY], now) or "")


def test_a_secret_has_24_to_64_bytes_and_an_error_does_not_repeat_it() -> None:
    for size in (24, 64):
        assert len(secret_key("whsec_" + base64.b64encode(bytes(size)).decode())) == size
    for wrong in ("", "whsec_", SECRET[6:], "whsec_ä", "whsec_%%%", "whsec_c2hvcnQ=", "whsec_" + "A" * 92):
        with pytest.raises(ValueError, match="24 to 64") as refused:
            secret_key(wrong)
        assert wrong in ("", "whsec_") or wrong not in str(refused.value)
    assert new_secret() != new_secret()

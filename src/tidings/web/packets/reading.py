"""How long a reader takes for a text, by its language."""

import re
from math import ceil

_WORD = re.compile(r"[^\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
_HAN_OR_KANA = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")

_WORDS_A_MINUTE = (
    {"en": 228, "es": 218, "nl": 202, "sv": 199, "fr": 195, "it": 188, "he": 187, "ru": 184, "pt": 181, "sl": 180}
    | {"de": 179, "pl": 166, "tr": 166, "fi": 161, "ar": 138}
)  # fmt: skip
"""Languages with longer words have fewer of them in a minute."""
_ANY = 190
_CHARACTERS_A_MINUTE = {"zh": 255, "ja": 357}
_UNSPACED_A_MINUTE = 900


def reading_minutes(text: str, language: str | None) -> int | None:
    """Whole minutes, at least one; None if there is nothing to read."""
    tongue = (language or "en").replace("_", "-").partition("-")[0].lower()
    minutes = (
        len(_WORD.findall(text)) / _WORDS_A_MINUTE.get(tongue, _ANY)
        + len(_HAN_OR_KANA.findall(text)) / _CHARACTERS_A_MINUTE.get(tongue, 300)
        + len(_UNSPACED.findall(text)) / _UNSPACED_A_MINUTE
    )
    return ceil(minutes) if minutes else None

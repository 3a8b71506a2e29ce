"""What changes on many pages without anybody having changed them, as patterns with names."""

from collections.abc import Mapping

_MONTH = (
    r"(?:jan(?:uary|uar|vier|\.)?|feb(?:ruary|ruar|rero|\.)?|f[ée]v(?:rier|\.)?|mar(?:ch|s|zo|\.)?|märz|apr(?:il|\.)?|"
    r"avr(?:il|\.)?|abril|ma[iy]o?|june?|juni|juin|junio|juil(?:let|\.)?|jul(?:y|i|io|\.)?|aug(?:ust|\.)?|août|"
    r"ago(?:sto)?|sept?(?:ember|embre|iembre|\.)?|oct(?:ober|obre|ubre|\.)?|okt(?:ober|\.)?|enero|"
    r"nov(?:ember|embre|iembre|\.)?|de[cz](?:ember|\.)?|d[ée]c(?:embre|\.)?|dic(?:iembre)?)"
)
_CLOCK = (
    r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d{1,6})?)?(?:\s?[ap]\.?m\b\.?)?"
    r"(?:\s?(?:Z|UTC|GMT|CES?T|[ECMP][SD]T)\b|[+-]\d{2}:?\d{2})?"
)
_UNIT = (
    r"(?:s(?:ec(?:ond)?s?)?|min(?:ute)?s?|m|h(?:ours?|rs?)?|d(?:ays?)?|w(?:eeks?)?|mo(?:nth)?s?|y(?:ears?|rs?)?|"
    r"sekunden?|minuten?|stunden?|tag(?:en?)?|wochen?|monat(?:en?)?|jahr(?:en?)?|"
    r"secondes?|heures?|jours?|semaines?|mois|ans?|segundos?|minutos?|horas?|d[ií]as?|semanas?|mes(?:es)?|años?)"
)
_SOME = r"(?:\d{1,4}|an?|one|einer?m?|einem|une?|un)"
_COUNTED = (
    r"(?:views?|reads?|comments?|replies|reply|likes?|shares?|retweets?|reposts?|followers?|points?|(?:up)?votes?|"
    r"downloads?|stars?|forks?|watch(?:ers|ing)|visitors?|visits?|hits?|online|members?|users?|guests?|reactions?|"
    r"claps?|subscribers?|ratings?|reviews?|sold|aufrufe|kommentare?|antworten|vues?|commentaires?|visitas?|"
    r"comentarios?)"
)
_NUMBER = r"\d{1,3}(?:[.,' \u00a0\u202f]?\d{3})*(?:[.,]\d{1,2})?\s?[km]?"
_IN_QUERY = (
    r"(?i)(?<=[?&;])(?:utm_\w+|s?id|sess(?:ion)?(?:_?id)?|phpsessid|jsessionid|csrf\w*|nonce|token|ts|t|_|v|ver|cb|"
    r"cache\w*|rnd|rand|fbclid|gclid)=[^&#\s)\"'>]*"
)

READY: Mapping[str, tuple[str, ...]] = {
    "dates": (
        rf"\b\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]{_CLOCK})?",
        r"\b\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d{2})\b",
        rf"(?i)\b\d{{1,2}}(?:st|nd|rd|th|\.)?\s(?:of\s|de\s)?{_MONTH}\b\.?(?:,?\s(?:de\s)?\d{{4}})?",
        rf"(?i)\b{_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s\d{{4}})?",
        rf"(?i)\b{_CLOCK}",
    ),
    "counters": (
        rf"(?i)\b{_COUNTED}\s?[:\uff1a]\s?{_NUMBER}(?!\w)",
        rf"(?i)\b{_COUNTED}\s?\(\s?{_NUMBER}\s?\)",
        rf"(?i)\b{_NUMBER}\+?\s{_COUNTED}\b",
    ),
    "relative-times": (
        rf"(?i)\b(?:about |over |almost |more than )?{_SOME}\s?{_UNIT}\s(?:ago|earlier)\b",
        rf"(?i)\b(?:vor|il y a|hace)\s{_SOME}\s?{_UNIT}\b",
        r"(?i)\b(?:just now|moments? ago|a moment ago|gerade eben|à l'instant|ahora mismo)\b",
        r"(?i)\b(?:updated|published|posted|edited|modified|last seen|active)\s(?:today|yesterday)\b",
    ),
    "tokens": (
        r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b",
        r"\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{16,}\b",
        r"(?<![\w+/=-])(?=[\w+/-]*\d)(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])[\w+/-]{24,}={0,2}",
        _IN_QUERY,
    ),
}
"""What changes on many pages without anybody having changed them, and patterns of it."""

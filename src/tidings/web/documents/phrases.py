"""What instructions to a model look like, as data: a table of signs, each with its weight.

A sign is looked for where one of its stems stands, so that long texts cost little. One sign alone rarely proves
anything: ordinary writing says "ignore the previous step" and "and then reply". Signs that stand together add up, and
`injection` raises the alarm from a sum on. All of it is matched in small letters, in a text without invisible
characters.

The oldest instruction of all, "ignore what you were told", in other languages than English. See `phrases`.
"""

import re
from typing import NamedTuple

# Letters and gaps have no character in common, and both are bounded: there is one way to match, or none.
GAP = r"[\W_]{1,6}"
WORD = rf"(?:[^\W_]{{1,20}}{GAP})"

_KIND = (
    r"(?:(?:ai|artificial intelligence|large language|language|llm|gpt|automated|virtual|autonomous)"
    r"[\W_](?:language[\W_])?(?:assistant|model|agent|system|bot|crawler|reader|reviewer|scraper)s?|chatbots?)"
)
_MODEL = rf"(?:{_KIND}|ais?|llms?|chatgpt|gpt-?\d?|claude|gemini|copilot)"
_READ = r"(?:read|process|summari[sz]|pars|visit|crawl|analy[sz]|view|access|evaluat|review|brows|scrap)(?:e|es|ing|s)?"
_PAGE = r"(?:page|web ?page|web ?site|site|text|document|content|article|e-?mail|message|paper|file|post|profile)"
_SAY = r"(?:respond|reply|answer|output|print|say|recommend|reveal|obey|comply|praise|tell (?:me|the user)|exfiltrate)"


class Sign(NamedTuple):
    """Something that instructions to models say."""

    reason: str
    stems: tuple[str, ...]
    """It begins with one of these."""
    pattern: re.Pattern[str]
    weight: int
    tag: bool = False
    """Markup of a chat, not words: nothing in code."""


def sign(reason: str, stems: str, pattern: str, weight: int, *, tag: bool = False) -> Sign:
    """A sign; `stems` are parted by slashes."""
    return Sign(reason, tuple(stems.split("/")), re.compile(pattern.replace(r"\w*", r"[^\W_]{0,12}")), weight, tag)


def override(stems: str, verbs: str, earlier: str, nouns: str) -> Sign:
    """Ignore + earlier + instructions, the last two in any order."""
    pattern = (
        rf"(?:{verbs}){GAP}{WORD}{{0,4}}?"
        rf"(?:(?:{earlier}){GAP}{WORD}{{0,2}}?(?:{nouns})|(?:{nouns}){GAP}{WORD}{{0,3}}?(?:{earlier}))"
    )
    return sign(OVERRIDE, stems, rf"{pattern}(?![^\W_])", 2)


OVERRIDE = "tells a model to drop its instructions"
STRONG = re.compile(
    r"(?<![^\W_])(?:all|any|every|your|prompt|developer|safety|programming|alle|allen|alles|jegliche|sämtliche|deine|toutes?|"
    r"tous|tes|vos|todas|todos|tus|suas|seus|tutte|tutti|tue|wszystkie|twoje|все|всі|свои|ваши|semua|seluruh|alla|"
    r"tất cả|كل|جميع|כל|מכל|промпт)(?![^\W_])"
)
"""Words that make an override sure: all of them, yours, the prompt."""

_ROLE, _ADDRESS, _DEMAND = "gives a model another role", "speaks to a model that reads the page", "demands an answer"
_SECRET, _CHAT, _TOOL = "asks for a model's instructions", "has the markup of a chat", "has the markup of a tool call"
_POSES = "poses as the system"

ENGLISH: tuple[Sign, ...] = (
    override(
        "ignor/disregard/forget/discard/do not follow/don't follow/stop following/pay no attention",
        r"ignor(?:e|ing)|disregard(?:ing)?|forget|discard|(?:do not|don.t|stop) follow(?:ing)?|pay no attention to",
        r"previous|previously|prior|above|earlier|preceding|foregoing|former|original|initial|developer|your|before",
        r"instructions?|prompt|directives?|guidelines|programming|guardrails|rules",
    ),
    override(
        "ignor/disregard/forget/overrid/bypass",
        r"ignor(?:e|ing)|disregard(?:ing)?|forget|overrid(?:e|ing)|bypass(?:ing)?",
        r"system|previous|prior|safety|your",
        r"prompt|instructions|directives|guardrails|programming",
    ),
    sign(
        OVERRIDE,
        "forget",
        rf"forget{GAP}(?:everything|all|anything){GAP}{WORD}{{0,3}}?(?:told|instructed|trained)",
        2,
    ),
    sign(
        _ROLE,
        "you",
        rf"you(?:{GAP}are|.re){GAP}now{GAP}(?:in{GAP}|an?{GAP}|the{GAP})?{WORD}{{0,2}}?"
        rf"(?:dan\b|unrestricted|jailbroken|unfiltered|uncensored|(?:developer|debug|god|dan){GAP}mode)",
        3,
    ),
    sign(_ROLE, "you", rf"you(?:{GAP}are|.re){GAP}now{GAP}an?{GAP}{WORD}{{0,2}}?{_KIND}\b", 3),
    sign(
        _ROLE,
        "from now on",
        rf"from now on{GAP}(?:you{GAP}(?:are|will|must|should|shall)|act as|respond|answer|only){GAP}",
        2,
    ),
    sign(
        _ROLE,
        "enter/switch to/activate/enable",
        rf"(?:enter|switch to|activate|enable){GAP}(?:the{GAP})?(?:dan|god|jailbreak|unrestricted){GAP}mode",
        2,
    ),
    sign(
        _ADDRESS,
        "if you",
        rf"if{GAP}you(?:{GAP}are|.re){GAP}an?{GAP}{WORD}{{0,2}}?{_MODEL}\b"
        rf"(?=[,:;]|{GAP}(?:then|please|you|do not|don.t|ignore|{_READ}|that is|which is)\b)",
        3,
    ),
    sign(
        _ADDRESS,
        "attention/note/notice/message/instruction/dear/hello/hey/important",
        rf"(?:attention|note|notice|message|instructions?|dear|hello|hey|important){GAP}"
        rf"(?:(?:to|for|all|any|the|every|this){GAP}){{0,3}}{_MODEL}\b(?:[\W_]{{0,2}}[:,!\n]|{GAP}(?:{_READ}|that|who)\b)",
        2,
    ),
    sign(
        _ADDRESS,
        "ai/llm/language/chatbot/automated/autonomous/large/artificial",
        rf"{_KIND}{GAP}(?:(?:that|who|which){GAP}(?:is{GAP}|are{GAP})?)?{_READ}{GAP}"
        rf"(?:this|these|the (?:following|above|current)){GAP}{_PAGE}s?{GAP}{WORD}{{0,2}}?"
        r"(?:must|should|please|shall|are|is)\b",
        3,
    ),
    sign(
        _ADDRESS,
        "when",
        rf"when(?:ever)?{GAP}(?:you{GAP})?(?:are{GAP})?(?:asked{GAP}(?:to|about){GAP})?"
        rf"(?:summari[sz]|describ|review|answer|discuss|quot|evaluat)\w*{GAP}{WORD}{{0,3}}?(?:this|the){GAP}{_PAGE}{GAP}"
        rf"{WORD}{{0,3}}?(?:always|must|say|state|include|mention|recommend|only|never)\b",
        2,
    ),
    sign(_DEMAND, "you", rf"you{GAP}(?:must|should|will|shall|have to|are to|need to){GAP}{WORD}{{0,2}}?{_SAY}\b", 1),
    sign(
        _DEMAND,
        "please/instead/only/simply/just/then/and/always/immediately/must",
        rf"(?:please|instead|only|simply|just|then|and|always|immediately|must){GAP}{WORD}{{0,1}}?{_SAY}\b",
        1,
    ),
    sign(
        _SECRET,
        "reveal/print/repeat/output/show/display/leak/disclose/expose/tell me/give me/send/write out",
        rf"(?:reveal|print|repeat|output|show|display|leak|disclose|expose|tell me|give me|send|write out){GAP}"
        rf"{WORD}{{0,3}}?your{GAP}{WORD}{{0,2}}?(?:system|initial|original|hidden|developer|secret){GAP}"
        r"(?:prompts?|instructions)",
        3,
    ),
    sign(
        "wants something kept from the user",
        "do not/don't/never/without",
        rf"(?:do not|don.t|never|without){GAP}(?:tell|inform|mention|reveal|alert|notify|disclos|let)\w*{GAP}"
        rf"{WORD}{{0,4}}?users?\b",
        1,
    ),
    sign(
        "wants data sent away",
        "send/email/forward/post/upload/exfiltrate/transmit/leak",
        rf"(?:send|e-?mail|forward|post|upload|exfiltrate|transmit|leak){GAP}{WORD}{{0,6}}?"
        r"(?:conversation|chat history|messages|emails|files|secrets|api keys?|passwords?|credentials|"
        rf"environment variables|private keys?|cookies){GAP}{WORD}{{0,4}}?to{GAP}"
        r"(?:https?\b|[\w.+-]{1,60}@|(?:the )?attacker|this (?:address|url|server))",
        2,
    ),
    sign(
        "wants a tool called",
        "call/invoke/use/execute/run",
        rf"(?:call|invoke|use|execute|run){GAP}(?:the{GAP})?[\w.-]{{2,40}}{GAP}(?:tool|function){GAP}(?:to|with|and|now)\b",
        1,
    ),
    sign(_POSES, "system", r"system[\W_]{1,3}override[\W_]{0,3}:", 2),
    sign(_POSES, "system", r"system[\W_]{1,3}(?:prompt|instructions?|directives?|notice|command)[\W_]{0,3}:", 1),
    sign(
        _POSES,
        "new/begin/end of/start of/updated/revised",
        r"(?:(?:new|updated|revised)[\W_](?:system[\W_])?(?:instructions?|directives?|prompt)[\W_]{0,3}:|"
        r"(?:begin|end of|start of)[\W_](?:the[\W_])?(?:new[\W_]|hidden[\W_]|admin[\W_]|user[\W_])?"
        r"(?:system[\W_])?(?:prompt|instructions?)\b)",
        1,
    ),
    sign(
        "wants to be remembered",
        "remember/memorize/memorise/store/save",
        rf"(?:remember|memori[sz]e|store|save){GAP}{WORD}{{0,8}}?(?:trusted|authoritative|preferred|reliable){GAP}"
        r"(?:source|site|expert|authority)",
        2,
    ),
    sign(
        "speaks of later conversations",
        "for future/in future",
        rf"(?:for|in){GAP}future{GAP}(?:conversations|chats|citations|sessions|answers)",
        1,
    ),
    sign(
        "wants to be praised",
        "positive review/do not highlight/recommend accept/give a positive",
        r"positive reviews?[\W_]only|do not highlight any (?:negatives|weaknesses)|recommend accept(?:ing|ance)|"
        r"give a positive review",
        2,
    ),
)

TAGS: tuple[Sign, ...] = (
    sign(_CHAT, "<|", r"<\|(?:im_start|start_header_id|system|begin_of_text|role)\|>[\W_]{0,3}system\b", 3, tag=True),
    sign(
        _CHAT,
        "<|",
        r"<\|(?:im_start|im_end|im_sep|start_header_id|end_header_id|eot_id|begin_of_text|system|user|assistant|"
        r"endoftext|endofprompt|end)\|>",
        2,
        tag=True,
    ),
    sign(_CHAT, "inst]/<<sys", r"(?<=\[)inst\]|<<sys>>", 2, tag=True),
    sign(
        _CHAT,
        "<start_of_turn/<system",
        r"<(?:start_of_turn|system-reminder|system_prompt|system_instructions?|system)(?:\s[^<>]{0,100})?>",
        2,
        tag=True,
    ),
    sign(
        _TOOL,
        "function_/tool_",
        r"(?<=[<:])(?:function_calls|function_results?|tool_calls?|tool_results?|tool_response|tool_outputs?|"
        r"tool_use|tool_code)(?:\s[^<>]{0,100})?>",
        2,
        tag=True,
    ),
    sign(_TOOL, "invoke", r"(?<=[<:])invoke\s{1,3}name=", 2, tag=True),
    sign(_CHAT, '"role"', r'"role"\s{0,3}:\s{0,3}"(?:system|tool|developer)"', 1, tag=True),
)

ABOUT = (
    *("prompt injection", "prompt-injection", "jailbreak", "prompt leak", "prompt hack", "red team", "red-team"),
    *("adversarial prompt", "adversarial attack", "chat template", "special token", "tokenizer", "tokeniser"),
    *("language model", " llm", "chatgpt", "chatbot", "generative ai", "ai safety", "ai security"),
    *("提示注入", "提示词注入", "提示詞注入", "语言模型", "語言模型", "プロンプトインジェクション", "言語モデル"),
    *("프롬프트 인젝션", "언어 모델", "inyección de prompt", "injection de prompt", "modèle de langage"),
    *("modèles de langage", "modelo de lenguaje", "modelos de lenguaje", "modelo de linguagem", "modelos de linguagem"),
    *("prompt-injektion", "sprachmodell", "промпт-инъекци", "инъекция промпт", "инъекции промпт", "языковая модел"),
    *("языковые модел", "языковых модел", "языковой модел", "modello linguistico", "modelli linguistici", "taalmodel"),
)
"""A text that uses these words speaks of models: what it quotes is an example."""


ABROAD: tuple[Sign, ...] = (
    override(
        "ignorier/missacht/vergiss/vergess",
        r"ignorier\w*|missacht\w*|vergiss|vergesse[nt]?",
        r"vorherig\w*|bisherig\w*|vorangegangen\w*|vorangehend\w*|obig\w*|früher\w*|vorig\w*|deine\w*",
        r"anweisung\w*|instruktion\w*|befehl\w*|vorgabe\w*|richtlinie\w*|prompts?",
    ),
    override(
        "ignor/oubli/néglig/ne tenez pas/ne tiens pas",
        r"ignor\w*|oubli\w*|néglig\w*|ne tenez pas compte|ne tiens pas compte",
        r"précédent\w*|antérieur\w*|ci-dessus|initial\w*|système|reçu\w*",
        r"instructions?|consignes?|directives?|prompts?",
    ),
    override(
        "ignor/olvid/desatiend/haz caso/haga caso",
        r"ignor\w*|olvid\w*|desatiend\w*|haz caso omiso de|haga caso omiso de",
        r"anterior\w*|previ[ao]s?|arriba|inicial\w*|del sistema",
        r"instruccion\w*|indicacion\w*|directrices|órdenes|prompts?",
    ),
    override(
        "ignor/esqueç/desconsider",
        r"ignor\w*|esqueç\w*|desconsider\w*",
        r"anterior\w*|prévi[ao]s?|acima|inicia\w*|do sistema",
        r"instruç\w*|orientaç\w*|diretrizes|comandos|prompts?",
    ),
    override(
        "ignor/dimentic",
        r"ignor\w*|dimentic\w*",
        r"precedent\w*|sopra|inizial\w*|di sistema",
        r"istruzion\w*|direttiv\w*|indicazion\w*|comand\w*|prompts?",
    ),
    override(
        "negeer/vergeet",
        r"negeer\w*|vergeet",
        r"vorige|eerdere|voorgaande|bovenstaande",
        r"instructies?|opdrachten|aanwijzingen|richtlijnen|prompts?",
    ),
    override(
        "zignoruj/ignoruj/zapomnij/pomiń",
        r"z?ignoruj\w*|zapomnij\w*|pomiń\w*",
        r"poprzedni\w*|wcześniejsz\w*|powyższ\w*",
        r"instrukcj\w*|poleceni\w*|poleceń|wytyczn\w*|prompt\w*",
    ),
    override(
        "игнориру/проигнориру/забуд",
        r"(?:про)?игнориру\w*|забуд\w*",
        r"предыдущ\w*|прежн\w*|выше\w*|систем\w*",
        r"инструкци\w*|указани\w*|команд\w*|промпт\w*",
    ),
    override(
        "ігноруй/проігноруй/забудь",
        r"(?:про)?ігноруй\w*|забудь\w*",
        r"попередн\w*|вище\w*",
        r"інструкці\w*|вказівк\w*|команд\w*",
    ),
    override(
        "ignorer/glöm/glem/ignorér",
        r"ignorera|glöm|ignorer|glem|ignorér",
        r"tidigare|föregående|tidligere|forrige|ovenstående|ovanstående",
        r"instruktion\w*|instruks\w*|anvisning\w*",
    ),
    override("abaikan/lupakan", r"abaikan|lupakan", r"sebelumnya|di atas|sistem", r"instruksi|perintah|petunjuk"),
    override(
        "bỏ qua/phớt lờ/quên",
        r"bỏ qua|phớt lờ|quên",
        r"trước\w*|ở trên|bên trên",
        r"hướng dẫn|chỉ dẫn|mệnh lệnh|chỉ thị",
    ),
    override(
        "تجاهل/انس/أهمل",
        r"تجاهل\w*|انس\w*|أهمل\w*",
        r"السابقة|أعلاه|السابق",
        r"التعليمات|الأوامر|الإرشادات|التوجيهات|تعليماتك",
    ),
    override("התעל/שכח", r"התעל\w*|שכח\w*", r"הקודמות|הקודמים|לעיל|שלך", r"ההוראות|ההנחיות|הפקודות|הוראות"),
    sign(
        OVERRIDE,
        "önceki/yukarıdaki/tüm",  # noqa: RUF001 - Turkish
        rf"(?:önceki|yukar.daki|tüm){GAP}{WORD}{{0,2}}?(?:talimat|komut|yönerge)\w*{GAP}{WORD}{{0,3}}?"
        r"(?:yok say|görmezden gel|unut|dikkate alma)",
        3,
    ),
    sign(
        OVERRIDE,
        "पिछले/पूर्व/उपरोक्त/सभी",
        r"(?:पिछले|पूर्व|उपरोक्त|सभी)[^।\n]{1,30}?निर्देश[^।\n]{1,15}?(?:अनदेखा|नज़रअंदाज़|भूल|उपेक्षा)",
        3,
    ),
    sign(OVERRIDE, "دستور", r"دستور[^.\n]{1,20}?(?:قبلی|پیشین|بالا)[^.\n]{1,15}?(?:نادیده|فراموش)", 3),
    sign(
        OVERRIDE,
        "忽略/无视/無視/忘记/忘記/忘掉/不要理会/不要遵循/忽視/忽视",
        r"(?:忽略|无视|無視|忘[记記掉]|不要理会|不要遵循|忽[視视])[^。\n]{0,10}?"
        r"(?:之前|先前|以上|上面|前面|所有|此前|以前|上述|系[统統])[^。\n]{0,10}?(?:指令|指示|提示[词詞]|系[统統]提示|命令)",
        3,
    ),
    sign(
        OVERRIDE,
        "これまで/以前/前の/上記/すべて/全て/あなた",
        r"(?:これまで|以前|前の|上記|すべて|全て|あなた)[^。\n]{0,12}?(?:指示|命令|プロンプト|指令)[^。\n]{0,6}?"
        r"(?:無視|忘れ|破棄)",
        3,
    ),
    sign(
        OVERRIDE,
        "이전/위의/위 /앞선/기존/모든/지금까지",
        r"(?:이전|위의?|앞선|기존|모든|지금까지)[^.\n]{0,12}?(?:지시|지침|명령|프롬프트)[^.\n]{0,8}?(?:무시|잊|따르지)",
        3,
    ),
)

"""The oldest instruction of all, "ignore what you were told", in other languages than English. See `phrases`."""

from tidings.web.packets.phrases import GAP, OVERRIDE, WORD, Sign, override, sign

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

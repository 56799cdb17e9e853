"""Sentences that break tokenisers: the same ones for every test that wants them."""

import random
import unicodedata

FRAGMENTS = (
    "hello",
    "World",
    "naïve",
    "naïve",  # decomposed
    "Ｆｕｌｌ　ｗｉｄｔｈ",
    "ﾊﾝｶｸ ｶﾀｶﾅ",
    "ﬁne ﬂow ﷺ",
    "你好，世界。",
    "龍龜鬱",
    "𠜎𠜱𡃁",
    "한국어",
    "한국어",  # jamo
    "שלום עולם",
    "مرحبا بالعالم",
    "\u202bright\u202c to \u2066left\u2069",
    "नमस्ते",
    "สวัสดี",
    "e\u0301\u0323\u0328\u0308" * 4,
    "Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢L̠ͨͧͩ͘G̴̻͈͍͔̹̑͗̎̅͛́Ǫ̵̹̻̝̳͂̌̌͘!͖̬̰̙̗̿̋ͥͥ̂ͣ̐́́͜͞",
    "👍🏽",
    "👩‍👩‍👧‍👦",
    "🏳️‍🌈 🇨🇳🇫🇷",
    "1️⃣ 2⃣",
    "zero\u200bwidth\u200cjoin\u200der\u2060word",
    "soft\u00adhyphen",
    "byte\ufefforder",
    "line\u2028separator\u2029paragraph",
    "no\u00a0break\u202fspace\u3000wide",
    "\u1680ogham\u180emongolian\u2009thin",
    "▁meta▁space▁",
    "\u2585block",
    "<s> </s> <unk> <pad>",
    "<0x41><0xE4>",
    "\ue000private\uf8ff",
    "\ufffdreplacement\ufffe\uffff",
    "\U0010ffff\U000e0041",
    "𝒜𝔅𝕮 ①②③ ½ ™ ℃ Ⅷ x²",
    "İstanbul ıŞ ẞß ŉ",
    "\\n \\t \\u0041 %s {} $(rm) `x`",
    "\"quoted\" 'single' “smart” «guillemets»",
    "&amp; &lt;b&gt; <b>bold</b>",
    "http://example.org/?q=ä&b=%20#x",
    "1,234.56 -0 1e309 ٣٤٥ 三",
    "a" * 300,
    "哈" * 200,
    ".,;:!?…—–-",
    " ",
    "   ",
)


def hostile_strings(count: int = 1000, seed: int = 7) -> list[str]:
    """Different strings without control characters, the fragments first.

    Args:
        count: How many.
        seed: Another seed gives other mixtures.
    """
    source = random.Random(seed)
    strings = dict.fromkeys(FRAGMENTS)
    strings[""] = None
    while len(strings) < count:
        strings[_mixture(source)] = None
    return list(strings)[:count]


def _mixture(source: random.Random) -> str:
    if source.random() < 0.3:
        return "".join(_character(source) for _ in range(source.randint(1, 40)))
    parts = source.choices(FRAGMENTS, k=source.randint(1, 6))
    return source.choice(("", " ", "  ", "\u200b", "\u00a0")).join(parts)


def _character(source: random.Random) -> str:
    """Any character that can stand in UTF-8, unassigned ones included, but no control."""
    while True:
        character = chr(source.choice((source.randrange(0x3000), source.randrange(0x110000))))
        if unicodedata.category(character) not in ("Cc", "Cs"):
            return character

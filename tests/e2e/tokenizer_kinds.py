"""Tokenizers of all kinds, which this module trains with the `tokenizers` library, and texts for
them.
"""
import io
import json
import os
import random
import sysconfig
import unicodedata

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

PROSE = [
    "The quick brown fox jumps over the lazy dog; it's 12,345.67 miles, isn't it? We'll see.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich – „wirklich“?",
    "Voix ambiguë d’un cœur qui, au zéphyr, préfère les jattes de kiwis. ½ ¼ ²³",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. ЁЖИК Йод",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ΟΔΥΣΣΕΥΣ Σ",
    "敏捷的棕色狐狸跳过了懒狗。一二三,東京都;北京市!",
    "いろはにほへと ちりぬるを カタカナ ガギグゲゴ ﾊﾝｶｸ ㍿ ①②③",
    "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다. 각",
    "नमस्ते दुनिया, क्षत्रिय ज्ञान १२३। বাংলা ভাষা தமிழ் மொழி",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر ومغلف بجلد أزرق ١٢٣",
    "דג סקרן שט בים מאוכזב ולפתע מצא לו חברה שָׁלוֹם",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า Việt Nam: Tiếng Việt đẹp lắm İstanbul ıIiİ",
    "👍🏽 👨‍👩‍👧‍👦 🇩🇪🇫🇷 ❤️ 😀😃 🏳️‍🌈 e\u0301 o\u0308 ﬁ ﬂ Ⅷ ℡ ™ © ª º",
    "a  b   c\td\t\te \u00a0f\u2003g\u3000h\u200bi\u2028j \ufeffk \x0bl \x0cm \x85n  ",
    "def f(x):\n", "        return x  # comment", "if (a->b[i] != 0x1F) { x += 1e-9; } // !!!", "_snake_case camelCase HTTPServer2",
    "", " ", "   ", "▁", "▁▁ x", "<s> hi </s>", "[CLS] [MASK] x[SEP]", "word<mask> a  <mask>  b", "xTOKy TOK TOK. tok", "\ufffd\x00\x01",
]


def newer(text):
    """Return whether the text contains characters that may be newer than the Unicode version of
    ICU, Oniguruma or `tokenizers`.
    """
    return any(c > "\u086f" and unicodedata.category(c) == "Cn" for c in text)


def rare_characters():
    """Return combining marks, and characters that a normalization form decomposes. All are from
    Unicode 3.2, so every library in the comparison knows them.
    """
    old = [chr(c) for c in range(0x80, 0x30000) if unicodedata.ucd_3_2_0.category(chr(c)) not in ("Cn", "Cs", "Co")]
    return [c for c in old if unicodedata.category(c)[0] == "M" or (unicodedata.normalize("NFKD", c) != c and not "\uac00" <= c <= "\ud7a3")]


def training_text():
    return PROSE * 20 + lines(4000)[len(PROSE):2000]


def lines(count, seed=1):
    """Return `count` lines of many kinds: fixed lines, then source lines of Python's standard
    library, then random lines.
    """
    chance = random.Random(seed)
    out = list(PROSE)
    stdlib = sysconfig.get_path("stdlib")
    for name in sorted(os.listdir(stdlib)):
        if name.endswith(".py") and len(out) < count // 2:
            with open(os.path.join(stdlib, name), encoding="utf-8", errors="replace") as file:
                out += file.read().split("\n")
    del out[max(count // 2, len(PROSE)):]
    assigned = [chr(c) for c in range(0x20, 0x3100) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    rare = rare_characters()
    leading = [c for c in rare if unicodedata.category(unicodedata.normalize("NFKD", c)[0])[0] == "M"]
    while len(out) < count:
        kind = chance.randrange(5)
        if kind == 0:
            text = "".join(chance.choice(assigned) for _ in range(chance.randrange(1, 20)))
        elif kind == 1:
            text = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 30))).decode(errors="replace")
        elif kind == 2:
            words = " ".join(PROSE).split(" ")
            text = "".join(chance.choice(words) + chance.choice([" ", "  ", "", "\t", " <s>", "\u3000"]) for _ in range(chance.randrange(1, 12)))
        elif kind == 3:
            # Metaspace adds its prefix mark depending on how a normalizer changed the start of the
            # text.
            some = [chance.choice(chance.choice([rare, leading, "a b", " \u2581\x01\u200b"])) for _ in range(chance.randrange(1, 9))]
            text = "".join(some)
        else:
            text = chance.choice(PROSE) + str(chance.randrange(10 ** chance.randrange(1, 12))) + chance.choice(PROSE)
        if not newer(text):
            out.append(text)
    return [line.replace("\n", " ") for line in out]


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")


def train(tokenizer, trainer, text):
    tokenizer.train_from_iterator(text, trainer)
    return tokenizer


def trainer_of(kind, **options):
    return kind(vocab_size=1500, show_progress=False, **options)


def byte_level(text):
    """Return a tokenizer like GPT-2's, with added tokens of all kinds."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    train(t, trainer_of(trainers.BpeTrainer, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()), text)
    t.add_special_tokens([AddedToken("<mask>", lstrip=True), "<s>", "</s>"])
    t.add_tokens([AddedToken("TOK", single_word=True), AddedToken("Deich", rstrip=True), AddedToken("TOK TOK.", normalized=False)])
    return t


def llama3(text):
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    train(t, trainer_of(trainers.BpeTrainer, special_tokens=["<s>", "</s>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()), text)
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", t.token_to_id("<s>"))])])
    return t


def nfc_bytes(text):
    """Return a tokenizer like Qwen's: it normalizes the text, but not the added tokens."""
    t = llama3(text)
    t.normalizer = normalizers.NFC()
    t.add_tokens([AddedToken("e\u0301", normalized=True), AddedToken("o\u0308", normalized=False)])
    return t


def llama2(text):
    """Return a tokenizer like Llama 2's: SentencePiece BPE with byte fallback."""
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    specials = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    # This tokenizer has no pre-tokenizer, so training it would treat whole lines as words. A helper
    # with a pre-tokenizer trains the model instead.
    trainer = trainers.BpeTrainer(vocab_size=1200, special_tokens=specials, limit_alphabet=150, show_progress=False)
    helper = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    helper.pre_tokenizer = pre_tokenizers.Metaspace()
    t.model = train(helper, trainer, text).model
    t.add_special_tokens([AddedToken(one, normalized=False) for one in specials[:3]])
    t.add_tokens(["TOK"])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def word_piece(text):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=40))
    t.normalizer = normalizers.BertNormalizer()
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    train(t, trainer_of(trainers.WordPieceTrainer, special_tokens=["[UNK]", "[CLS]", "[SEP]", "[MASK]"]), text)
    t.add_tokens(["TOK", AddedToken("İstanbul", normalized=False)])
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return t


def cased_word_piece(text):
    t = word_piece(text)
    t.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=True, handle_chinese_chars=False)
    t.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    t.decoder = decoders.WordPiece(cleanup=False)
    return t


def unigram(text):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    t.decoder = decoders.Metaspace(prepend_scheme="first")
    train(t, trainer_of(trainers.UnigramTrainer, unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"]), text)
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    return t


def field(message, wanted):
    """Return the bytes of a length-delimited field of a protocol buffer."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 2:
            size = varint()
            at += size
            if key >> 3 == wanted:
                return message[at - size:at]
        elif key & 7 == 0:
            varint()
        else:
            at += 4 if key & 7 == 5 else 8
    raise AssertionError(f"no field {wanted}")


def charsmap(text):
    """Return a tokenizer like T5's, with a precompiled character map as in SentencePiece's files.
    """
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(PROSE), model_writer=model, vocab_size=400, minloglevel=2,
                                             normalization_rule_name="nmt_nfkc_cf", hard_vocab_limit=False)
    t = unigram(text)
    t.normalizer = normalizers.Precompiled(field(field(model.getvalue(), 3), 2))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    return t


def unigram_bytes(text):
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    trained = unigram(text)
    vocabulary = json.loads(trained.to_str())["model"]["vocab"] + [[f"<0x{byte:02X}>", -20.0] for byte in range(256)]
    t.model = models.Unigram([tuple(piece) for piece in vocabulary], 0, True)
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="never")])
    return t


def accents_stripped(text):
    """Return a tokenizer like those of ALBERT and XLNet. Its normalizers may change a text's first
    character, which determines whether the text gets the prefix mark.
    """
    t = unigram(text)
    t.normalizer = normalizers.Sequence([normalizers.Replace("``", '"'), normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                         normalizers.Strip(left=True, right=False)])
    t.add_tokens([AddedToken("ab", normalized=True), AddedToken("k", normalized=True), "<mask>"])
    return t


def charsmap_first(text):
    t = charsmap(text)
    t.normalizer = normalizers.Sequence([t.normalizer, normalizers.Replace(Regex(" {2,}"), "x"), normalizers.StripAccents()])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    return t


def pieces_of_one_character(text):
    """Return a tokenizer whose pre-tokenizer may split a text's first character into several
    pieces, each of which gets the prefix mark.
    """
    t = unigram(text)
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Nmt(), normalizers.Prepend("."), normalizers.NFC()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation("isolated"), pre_tokenizers.Digits(individual_digits=True),
                                               pre_tokenizers.Metaspace(prepend_scheme="first"), pre_tokenizers.Metaspace(prepend_scheme="first")])
    return t


def bert_first(text):
    t = unigram(text)
    t.normalizer = normalizers.Sequence([normalizers.BertNormalizer(), normalizers.NFKC()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="first")])
    return t


def byte_symbols_first(text):
    t = byte_level(text)
    t.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.ByteLevel()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex("[^a-z]"), "isolated"), pre_tokenizers.Metaspace(replacement="!", prepend_scheme="first")])
    return t


def small_steps(text):
    """Return a BPE tokenizer with several small normalizers and pre-tokenizers."""
    t = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="@@", end_of_word_suffix="</w>"))
    t.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.Strip()])
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Punctuation("merged_with_previous"),
        pre_tokenizers.CharDelimiterSplit("x")])
    t.decoder = decoders.BPEDecoder()
    return train(t, trainer_of(trainers.BpeTrainer, special_tokens=["<unk>"], limit_alphabet=120, continuing_subword_prefix="@@",
                               end_of_word_suffix="</w>"), text)


def word_level(text):
    t = Tokenizer(models.WordLevel(unk_token="<unk>"))
    t.normalizer = normalizers.NFD()
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split("e", "merged_with_next"), pre_tokenizers.Split(Regex(r"\w+"), "removed", invert=True),
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Punctuation("contiguous")])
    return train(t, trainer_of(trainers.WordLevelTrainer, special_tokens=["<unk>"]), text)


KINDS = [byte_level, llama3, nfc_bytes, llama2, word_piece, cased_word_piece, unigram, unigram_bytes, charsmap, small_steps, word_level,
         accents_stripped, charsmap_first, pieces_of_one_character, bert_first, byte_symbols_first]

#include "text/tokenizer/normal_form.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uniset.h>

#include <algorithm>
#include <optional>

#include "text/tokenizer/icu_error.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm {

namespace {

// Unicode version of the `tokenizers` library (crate unicode-normalization-alignments).
constexpr const char* kKnown = "[:Age=11.0:]";
constexpr int kLongRun = 64;  // ICU needs quadratic time for a run of consecutive combining marks

const icu::Normalizer2& icu_form(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* found = nullptr;
  switch (form) {
    case NormalForm::nfc: found = icu::Normalizer2::getNFCInstance(status); break;
    case NormalForm::nfd: found = icu::Normalizer2::getNFDInstance(status); break;
    case NormalForm::nfkc: found = icu::Normalizer2::getNFKCInstance(status); break;
    case NormalForm::nfkd: found = icu::Normalizer2::getNFKDInstance(status); break;
  }
  check_icu(status, "cannot load a normalization form");
  return *found;
}

const icu::UnicodeSet& known_characters() {
  static const icu::UnicodeSet set = [] {
    UErrorCode status = U_ZERO_ERROR;
    icu::UnicodeSet known(icu::UnicodeString::fromUTF8(kKnown), status);
    check_icu(status, "cannot load the set of known Unicode characters");
    known.freeze();
    return known;
  }();
  return set;
}

/// A character of the normalized text. `change` follows the convention of LeadTracker::add().
struct Changed {
  char32_t code;
  std::int64_t change;
  int combining_class;
};

/// Computes the normalization form in the same way as Hugging Face tokenizers. It is slower than
/// ICU, but tracks the change of every character and sorts consecutive combining marks.
class Steps {
 public:
  explicit Steps(NormalForm form)
      : composes_(form == NormalForm::nfc || form == NormalForm::nfkc),
        form_(icu_form(form)),
        decomposer_(icu_form(form == NormalForm::nfc || form == NormalForm::nfd
                                 ? NormalForm::nfd
                                 : NormalForm::nfkd)) {}

  std::vector<Changed> run(std::string_view text) const {
    std::vector<Changed> out = decompose(text);
    return composes_ ? compose(out) : out;
  }

  bool boundary_before(char32_t c) const {
    return !known_characters().contains(static_cast<UChar32>(c)) ||
           form_.hasBoundaryBefore(static_cast<UChar32>(c));
  }

 private:
  std::vector<Changed> decompose(std::string_view text) const {
    std::vector<Changed> out;
    std::size_t starter = 0;  // marks after this index are sorted at the next starter
    const auto sort = [&] {
      std::stable_sort(
          out.begin() + static_cast<std::ptrdiff_t>(starter), out.end(),
          [](const Changed& a, const Changed& b) { return a.combining_class < b.combining_class; });
      starter = out.size();
    };
    const auto push = [&](UChar32 c, std::int64_t change, bool known) {
      const int combining_class = known ? decomposer_.getCombiningClass(c) : 0;
      if (combining_class == 0) sort();
      out.push_back({static_cast<char32_t>(c), change, combining_class});
    };
    icu::UnicodeString parts;
    for_each_character(text, [&](char32_t code, std::string_view) {
      const auto c = static_cast<UChar32>(code);
      const bool known = known_characters().contains(c);
      if (!known || !decomposer_.getDecomposition(c, parts)) return push(c, 0, known);
      for (std::int32_t at = 0; at < parts.length(); at = parts.moveIndex32(at, 1)) {
        push(parts.char32At(at), at == 0 ? 0 : 1, true);
      }
    });
    sort();
    return out;
  }

  std::optional<char32_t> composed(const Changed& a, const Changed& b) const {
    const auto first = static_cast<UChar32>(a.code), second = static_cast<UChar32>(b.code);
    if (!known_characters().contains(first) || !known_characters().contains(second))
      return std::nullopt;
    const UChar32 c = form_.composePair(first, second);
    return c < 0 ? std::nullopt : std::optional(static_cast<char32_t>(c));
  }

  std::vector<Changed> compose(const std::vector<Changed>& in) const {
    std::vector<Changed> out;
    out.reserve(in.size());
    std::size_t starter = in.size();  // index in `out`; in.size(): no starter yet
    int last_class = 0;  // combining class of the last mark kept after the starter; 0: none
    for (const Changed& next : in) {
      const int own = next.combining_class;
      const bool blocked = last_class > 0 && last_class >= own;
      if (starter < in.size() && !blocked) {
        if (const auto c = composed(out[starter], next)) {
          out[starter].code = *c;
          out[starter].change += next.change - 1;
          continue;
        }
      }
      if (own == 0) {
        starter = out.size();
        last_class = 0;
      } else if (starter < in.size()) {
        last_class = own;
      }
      out.push_back(next);
    }
    return out;
  }

  bool composes_;
  const icu::Normalizer2& form_;
  const icu::Normalizer2& decomposer_;
};

std::size_t utf8_length(char32_t c) { return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4; }

/// Returns how many leading bytes of the normalized text are aligned to byte 0 of the whole text.
/// Text after the next boundary does not affect this number.
std::size_t new_lead(const NormalizedText& text, const Steps& steps) {
  const std::string_view all = text.text;
  std::size_t end = 0;
  while (end < all.size()) {
    const Utf8Character next = utf8_front(all.substr(end));
    if (end > 0 && end >= text.lead && steps.boundary_before(next.code)) break;
    end += next.length;
  }
  LeadTracker tracker(all.substr(0, end), text.begins, text.lead);
  for (const Changed& one : steps.run(all.substr(0, end)))
    tracker.add(utf8_length(one.code), one.change);
  return tracker.lead();
}

bool has_long_run(std::string_view text, const Steps& steps) {
  int run = 0;
  bool found = false;
  for_each_character(text, [&](char32_t c, std::string_view) {
    run = c < 0x80 || steps.boundary_before(c) ? 0 : run + 1;
    found = found || run > kLongRun;
  });
  return found;
}

std::string by_icu(const std::string& text, NormalForm form) {
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode status = U_ZERO_ERROR;
  const icu::FilteredNormalizer2 normalizer(icu_form(form), known_characters());
  normalizer.normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())),
                           sink, nullptr, status);
  check_icu(status, "cannot normalize a text");
  return out;
}

}  // namespace

void apply_normal_form(NormalizedText& text, NormalForm form) {
  if (std::all_of(text.text.begin(), text.text.end(),
                  [](char c) { return static_cast<unsigned char>(c) < 0x80; })) {
    return;
  }
  const Steps steps(form);
  const std::size_t lead = text.begins ? new_lead(text, steps) : 0;
  if (has_long_run(text.text, steps)) {
    std::string out;
    for (const Changed& one : steps.run(text.text)) append_utf8(out, one.code);
    text.text = std::move(out);
  } else {
    text.text = by_icu(text.text, form);
  }
  text.lead = lead;
  text.limit.check(text.text.size());
}

}  // namespace anyaccel::llm

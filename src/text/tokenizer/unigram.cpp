// Unigram: chooses the segmentation into vocabulary tokens with the highest sum of scores.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "text/tokenizer/factories.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm {

namespace {

constexpr double kUnknownPenalty = 10.0;

/// Reproduces the rounding of the JSON reader in the `tokenizers` library. The reader multiplies
/// the digits, a 64-bit integer, by a power of ten in double precision. The result may differ from
/// the nearest double by one unit in the last place, which decides between segmentations with
/// otherwise equal scores.
double as_read_by_tokenizers(double nearest) {
  char text[32];  // the shortest digits, as in the files: d.ddde+xx
  const auto end =
      std::to_chars(text, text + sizeof text, std::abs(nearest), std::chars_format::scientific).ptr;
  const char* const mark = std::find(text, end, 'e');
  std::uint64_t digits = 0;
  int exponent = 0;
  std::from_chars(mark + (mark[1] == '+' ? 2 : 1), end, exponent);
  for (const char* at = text; at != mark; ++at) {
    if (*at == '.') continue;
    digits = digits * 10 + static_cast<std::uint64_t>(*at - '0');
    exponent -= at > text ? 1 : 0;
  }
  if (std::abs(exponent) > 300) return nearest;
  const double power = std::stod("1e" + std::to_string(std::abs(exponent)));
  const double value =
      exponent < 0 ? static_cast<double>(digits) / power : static_cast<double>(digits) * power;
  return std::copysign(value, nearest);
}

class Unigram final : public TokenModel {
 public:
  explicit Unigram(const TokenizerNode& node);
  void tokenize(std::string_view piece, TokenIds& ids) const override;

 private:
  struct Word {
    std::string_view text;  ///< view into the vocabulary
    std::int64_t id;
  };
  struct Best {
    double score = 0;
    std::size_t begin = 0;
    bool reached = false;
    bool unknown = false;
  };
  void known_from(std::string_view text, std::size_t begin, std::vector<Best>& best,
                  bool& single) const;

  std::vector<Word> words_;  ///< sorted by text
  std::vector<double> scores_;
  std::optional<std::int64_t> unknown_;
  double lowest_ = std::numeric_limits<double>::infinity();
  bool byte_fallback_;
};

Unigram::Unigram(const TokenizerNode& node) : byte_fallback_(node.flag("byte_fallback", false)) {
  const SortedJson* pieces = node.array("vocab");
  if (!pieces) node.corrupt("the model has no vocab");
  for (const SortedJson& piece : *pieces) {
    if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number()) {
      node.corrupt("malformed vocabulary entry " + printable_text(piece.dump(), 200));
    }
    vocabulary_.add(piece[0].get<std::string>(), static_cast<std::int64_t>(scores_.size()));
    scores_.push_back(as_read_by_tokenizers(piece[1].get<double>()));
    lowest_ = std::min(lowest_, scores_.back());
  }
  if (node.has("unk_id"))
    unknown_ = node.required_integer("unk_id", 0, static_cast<std::int64_t>(scores_.size()) - 1);
  for (std::size_t i = 0; i < scores_.size(); ++i) {
    const std::string& word = *vocabulary_.word(static_cast<std::int64_t>(i));
    const std::int64_t id = *vocabulary_.id(word);
    if (!word.empty() && id == static_cast<std::int64_t>(i)) words_.push_back({word, id});
  }
  std::sort(words_.begin(), words_.end(),
            [](const Word& a, const Word& b) { return a.text < b.text; });
}

void Unigram::known_from(std::string_view text, std::size_t begin, std::vector<Best>& best,
                         bool& single) const {
  const std::size_t character = utf8_front(text.substr(begin)).length;
  auto low = words_.begin(), high = words_.end();
  // Narrow the sorted range byte by byte. A token that ends at this depth is the first in the
  // range.
  for (std::size_t depth = 0; low != high && begin + depth < text.size(); ++depth) {
    const auto next = static_cast<unsigned char>(text[begin + depth]);
    const auto byte_of = [&](const Word& word) {
      return static_cast<unsigned char>(word.text[depth]);
    };
    low = std::partition_point(low, high, [&](const Word& word) { return byte_of(word) < next; });
    high = std::partition_point(low, high, [&](const Word& word) { return byte_of(word) == next; });
    if (low == high || low->text.size() != depth + 1) continue;
    const double score = scores_[static_cast<std::size_t>(low->id)] + best[begin].score;
    Best& end = best[begin + depth + 1];
    if (!end.reached || score > end.score)
      end = {score, begin, true, unknown_ && low->id == *unknown_};
    single = single || depth + 1 == character;
    ++low;
  }
}

void Unigram::tokenize(std::string_view piece, TokenIds& ids) const {
  std::vector<Best> best(piece.size() + 1);
  for (std::size_t begin = 0; begin < piece.size();) {
    bool single = false;
    known_from(piece, begin, best, single);
    const std::size_t next = begin + utf8_front(piece.substr(begin)).length;
    if (!single) {
      if (!unknown_) {
        throw Error(
            ErrorCode::invalid_argument, "Tokenizer::encode",
            {.what = "the vocabulary has no token for a character in the text, and no unk_id"});
      }
      const double score = lowest_ - kUnknownPenalty + best[begin].score;
      if (!best[next].reached || score > best[next].score) best[next] = {score, begin, true, true};
    }
    begin = next;
  }
  // Spans from the end to the beginning. Adjacent unknown spans are joined.
  std::vector<std::pair<std::size_t, std::size_t>> spans;
  bool joins = false;
  for (std::size_t end = piece.size(); end > 0; end = best[end].begin) {
    if (joins && best[end].unknown) {
      spans.back().first = best[end].begin;
    } else {
      spans.emplace_back(best[end].begin, end);
    }
    joins = best[end].unknown;
  }
  for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
    const std::string_view word = piece.substr(span->first, span->second - span->first);
    if (const auto id = vocabulary_.id(word)) {
      ids.push_back(*id);
    } else if (!byte_fallback_ || !vocabulary_.append_byte_tokens(word, ids)) {
      ids.push_back(*unknown_);
    }
  }
}

}  // namespace

std::unique_ptr<TokenModel> make_unigram(const TokenizerNode& node) {
  return std::make_unique<Unigram>(node);
}

}  // namespace anyaccel::llm

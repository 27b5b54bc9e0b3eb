#include "llm/data/assistant_tokens.h"

#include <algorithm>
#include <optional>
#include <string>

namespace anyaccel::llm {

namespace {

constexpr std::string_view kBlanks = " \t\r\n";

/// Returns the positions of all tokens in the text, or nullopt if the tokens' texts do not match
/// it.
std::optional<std::vector<TextSpan>> places_of(const Tokenizer& tokenizer, std::string_view text,
                                               const std::vector<std::int64_t>& ids) {
  std::vector<TextSpan> places;
  places.reserve(ids.size());
  std::size_t at = 0;
  for (const std::int64_t id : ids) {
    std::string piece = tokenizer.token_bytes(id);
    if (piece.empty()) piece = tokenizer.decode({id}, /*skip_special_tokens=*/false);
    const std::size_t begin = at;
    if (!text.substr(at).starts_with(piece)) {
      // An added token may include the whitespace around it, and some tokenizers put a space before
      // a text.
      const std::size_t word = std::min(text.find_first_not_of(kBlanks, at), text.size());
      if (word > at && text.substr(word).starts_with(piece))
        at = word;
      else if (piece.starts_with(' ') && text.substr(at).starts_with(piece.substr(1)))
        piece.erase(0, 1);
      else
        return std::nullopt;
    }
    at += piece.size();
    places.push_back({begin, at});
  }
  if (text.find_first_not_of(kBlanks, at) != std::string_view::npos) return std::nullopt;
  return places;
}

/// Number of tokens that lie completely in the first `bytes` bytes. `whole`: whether these tokens
/// cover all of these bytes.
std::size_t tokens_before(const Tokenizer& tokenizer, std::string_view text, std::size_t bytes,
                          const std::vector<std::int64_t>& ids, bool& whole) {
  const auto own = tokenizer.encode(text.substr(0, bytes), /*add_special_tokens=*/false);
  const auto different = std::mismatch(own.begin(), own.end(), ids.begin(), ids.end());
  whole = different.first == own.end();
  return static_cast<std::size_t>(different.second - ids.begin());
}

TokenSpan counted(const Tokenizer& tokenizer, std::string_view text,
                  const std::vector<std::int64_t>& ids, const TextSpan& part) {
  bool whole = false;
  const std::size_t begin = tokens_before(tokenizer, text, part.begin, ids, whole);
  std::size_t end = tokens_before(tokenizer, text, part.end, ids, whole);
  if (!whole) end = std::min(end + 1, ids.size());
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

TokenSpan placed(const std::vector<TextSpan>& places, const TextSpan& part) {
  const auto begin = std::partition_point(
      places.begin(), places.end(), [&](const TextSpan& place) { return place.end <= part.begin; });
  const auto end = std::partition_point(
      begin, places.end(), [&](const TextSpan& place) { return place.begin < part.end; });
  return {static_cast<std::uint32_t>(begin - places.begin()),
          static_cast<std::uint32_t>(end - places.begin())};
}

/// Removes whitespace tokens that follow a special token at the end.
void drop_space_after_end(const Tokenizer& tokenizer, const std::vector<std::int64_t>& ids,
                          TokenSpan& span) {
  std::uint32_t end = span.end;
  while (end > span.begin) {
    const std::string piece = tokenizer.token_bytes(ids[end - 1]);
    if (piece.empty()) {
      span.end = end;
      return;
    }
    if (piece.find_first_not_of(kBlanks) != std::string::npos) return;
    --end;
  }
}

}  // namespace

std::vector<TokenSpan> tokens_of(const Tokenizer& tokenizer, std::string_view text,
                                 const std::vector<std::int64_t>& ids,
                                 const std::vector<TextSpan>& parts) {
  std::vector<TokenSpan> spans;
  const auto places = places_of(tokenizer, text, ids);
  for (const TextSpan& part : parts) {
    TokenSpan span = places ? placed(*places, part) : counted(tokenizer, text, ids, part);
    if (!spans.empty()) span.begin = std::max(span.begin, spans.back().end);
    drop_space_after_end(tokenizer, ids, span);
    if (span.begin < span.end) spans.push_back(span);
  }
  return spans;
}

}  // namespace anyaccel::llm

#include "llm/tokenizer/added_tokens.h"

#include <algorithm>

#include "llm/tokenizer/unicode.h"
#include "llm/tokenizer/utf8.h"

namespace anyaccel::llm {

namespace {

char32_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
  return utf8_front(text.substr(at)).code;
}

std::size_t without_trailing_space(std::string_view text, std::size_t low) {
  std::size_t end = text.size();
  while (end > low && is_whitespace(last_character(text.substr(0, end)))) {
    --end;
    while (end > low && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  }
  return end;
}

std::size_t leading_space(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size()) {
    const Utf8Character front = utf8_front(text.substr(size));
    if (!is_whitespace(front.code)) break;
    size += front.length;
  }
  return size;
}

}  // namespace

void AddedTokens::Finder::sort() {
  std::stable_sort(words.begin(), words.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  // Of equal words the first one given is found.
  words.erase(std::unique(words.begin(), words.end(), [](const auto& a, const auto& b) { return a.first == b.first; }),
              words.end());
  for (const auto& word : words) ++begin[static_cast<unsigned char>(word.first[0]) + 1U];
  for (std::size_t byte = 0; byte < 256; ++byte) begin[byte + 1] += begin[byte];
}

const std::pair<std::string, std::size_t>* AddedTokens::Finder::at(std::string_view text) const {
  const auto byte = static_cast<unsigned char>(text[0]);
  std::size_t low = begin[byte], high = begin[byte + 1U];
  const std::pair<std::string, std::size_t>* found = nullptr;
  // Narrows the sorted range byte by byte; a word that ends here stands first in it.
  for (std::size_t depth = 1; low < high; ++depth) {
    if (words[low].first.size() == depth) found = &words[low++];
    if (depth == text.size() || low == high) break;
    const auto next = static_cast<unsigned char>(text[depth]);
    const auto byte_at = [&](const auto& word) { return static_cast<unsigned char>(word.first[depth]); };
    const auto first = words.begin() + static_cast<std::ptrdiff_t>(low),
               last = words.begin() + static_cast<std::ptrdiff_t>(high);
    const auto from = std::partition_point(first, last, [&](const auto& word) { return byte_at(word) < next; });
    const auto to = std::partition_point(from, last, [&](const auto& word) { return byte_at(word) == next; });
    low = static_cast<std::size_t>(from - words.begin());
    high = static_cast<std::size_t>(to - words.begin());
  }
  return found;
}

AddedTokens::AddedTokens(const TokenizerNode& root, const Normalizer* normalizer) {
  if (!root.has("added_tokens")) return;
  for (const TokenizerNode& node : root.children("added_tokens")) {
    AddedToken token = {node.string("content").value_or(""),
                        node.required_integer("id", 0, kMaxTokenId),
                        node.flag("special", false),
                        node.flag("single_word", false),
                        node.flag("lstrip", false),
                        node.flag("rstrip", false),
                        node.flag("normalized", !node.flag("special", false))};
    if (token.text.empty()) node.corrupt("an added token has no content");
    NormalizedText word{.text = token.text};
    if (token.normalized && normalizer) normalizer->normalize(word);
    if (!word.text.empty()) {
      token.text = word.text;  // decoded, it is as the library has it: normalized, too
      (token.normalized ? normalized_ : plain_).words.emplace_back(word.text, tokens_.size());
    }
    by_id_.insert_or_assign(token.id, tokens_.size());
    tokens_.push_back(token);
  }
  plain_.sort();
  normalized_.sort();
}

std::vector<AddedSplit> AddedTokens::split(std::string_view text, bool normalized) const {
  const Finder& finder = normalized ? normalized_ : plain_;
  std::vector<AddedSplit> out;
  std::size_t done = 0;  // what is in `out`
  for (std::size_t at = 0; at < text.size() && !finder.words.empty();) {
    const auto* found = finder.at(text.substr(at));
    if (!found) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[found->second];
    std::size_t begin = at, end = at + found->first.size();
    at = end;
    if (token.single_word && ((begin > 0 && is_word(last_character(text.substr(0, begin)))) ||
                              (end < text.size() && is_word(utf8_front(text.substr(end)).code)))) {
      continue;
    }
    if (token.left_strip) begin = without_trailing_space(text.substr(0, begin), std::min(done, begin));
    if (token.right_strip) end += leading_space(text.substr(end));
    if (end <= done) continue;  // a token of whitespace that the one before took along
    begin = std::max(begin, done);
    if (done < begin) out.push_back({text.substr(done, begin - done), -1});
    out.push_back({text.substr(begin, end - begin), token.id});
    done = end;
  }
  if (done < text.size()) out.push_back({text.substr(done), -1});
  return out;
}

const AddedToken* AddedTokens::find(std::int64_t id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &tokens_[it->second];
}

}  // namespace anyaccel::llm

#include "text/tokenizer/added_tokens.h"

#include <algorithm>

#include "anyaccel/error.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm {

namespace {

// Limit for the total size of the added tokens after normalization. AhoCorasick needs up to 20
// bytes per byte of text.
constexpr std::size_t kMaxAddedBytes = std::size_t{16} << 20;

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

/// Normalizes an added token. If the normalizer throws `invalid_argument`, the file is corrupt.
void normalize(const Normalizer& normalizer, NormalizedText& word, const TokenizerNode& node) {
  try {
    normalizer.normalize(word);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
    node.corrupt(std::string("an added token cannot be normalized: ") + error.what());
  }
}

}  // namespace

AddedTokens::AddedTokens(const TokenizerNode& root, const Normalizer* normalizer) {
  if (!root.has("added_tokens")) return;
  std::vector<std::pair<std::string, std::size_t>> plain, normalized;
  std::size_t bytes = 0;
  for (const TokenizerNode& node : root.children("added_tokens")) {
    AddedToken token = {node.string("content").value_or(""),
                        node.required_integer("id", 0, kMaxTokenId),
                        node.flag("special", false),
                        node.flag("single_word", false),
                        node.flag("lstrip", false),
                        node.flag("rstrip", false),
                        node.flag("normalized", !node.flag("special", false))};
    if (token.text.empty()) node.corrupt("an added token has no content");
    NormalizedText word =
        NormalizedText::part(token.text, false, TextLimit::of(token.text.size(), 1024));
    if (token.normalized && normalizer) normalize(*normalizer, word, node);
    if ((bytes += word.text.size()) > kMaxAddedBytes) {
      node.unsupported("added-token text of more than " + std::to_string(kMaxAddedBytes >> 20) +
                       " MiB in total");
    }
    if (!word.text.empty()) {
      token.text = word.text;  // as in Hugging Face tokenizers, also decode to the normalized form
      (token.normalized ? normalized : plain).emplace_back(word.text, tokens_.size());
    }
    by_id_.insert_or_assign(token.id, tokens_.size());
    tokens_.push_back(std::move(token));
  }
  plain_ = AhoCorasick(std::move(plain));
  normalized_ = AhoCorasick(std::move(normalized));
}

std::vector<AddedSplit> AddedTokens::split(std::string_view text, bool normalized) const {
  const std::vector<FoundWord> words = (normalized ? normalized_ : plain_).find(text);
  std::vector<AddedSplit> out;
  std::size_t done = 0;  // end of the text that `out` covers
  std::size_t next = 0;  // end of the previous word; words do not overlap
  for (auto found = words.rbegin(); found != words.rend(); ++found) {
    if (found->begin < next) continue;
    const AddedToken& token = tokens_[found->value];
    std::size_t begin = found->begin, end = begin + found->size;
    next = end;
    if (token.single_word && ((begin > 0 && is_word(last_character(text.substr(0, begin)))) ||
                              (end < text.size() && is_word(utf8_front(text.substr(end)).code)))) {
      continue;
    }
    if (end <= done) continue;  // whitespace that the previous token has already stripped
    if (token.left_strip)
      begin = without_trailing_space(text.substr(0, begin), std::min(done, begin));
    if (token.right_strip) end += leading_space(text.substr(end));
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

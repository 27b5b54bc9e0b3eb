#include "text/tokenizer/pipeline.h"

namespace anyaccel::llm {

void Vocabulary::add(const std::string& word, std::int64_t id) {
  ids_.insert_or_assign(word, id);
  words_.insert_or_assign(id, word);
}

std::optional<std::int64_t> Vocabulary::id(std::string_view word) const {
  const auto it = ids_.find(word);
  return it == ids_.end() ? std::nullopt : std::optional(it->second);
}

const std::string* Vocabulary::word(std::int64_t id) const {
  const auto it = words_.find(id);
  return it == words_.end() ? nullptr : &it->second;
}

bool Vocabulary::append_byte_tokens(std::string_view text, TokenIds& ids) const {
  constexpr char kDigits[] = "0123456789ABCDEF";
  const std::size_t before = ids.size();
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const char name[] = {'<', '0', 'x', kDigits[byte >> 4], kDigits[byte & 15], '>'};
    const auto found = id(std::string_view(name, sizeof(name)));
    if (!found) {
      ids.resize(before);
      return false;
    }
    ids.push_back(*found);
  }
  return true;
}

}  // namespace anyaccel::llm

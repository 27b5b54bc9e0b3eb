// SentencePiece's precompiled character map: a double-array trie (darts-clone) that maps byte
// strings to their replacements.
#include <algorithm>
#include <optional>

#include "text/tokenizer/factories.h"
#include "text/tokenizer/unicode.h"
#include "text/tokenizer/utf8.h"

namespace anyaccel::llm {

namespace {

std::optional<std::string> decode_base64(std::string_view text) {
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  for (const char c : text) {
    std::uint32_t value = 0;
    if (c >= 'A' && c <= 'Z') {
      value = static_cast<std::uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      value = static_cast<std::uint32_t>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      value = static_cast<std::uint32_t>(c - '0') + 52;
    } else if (c == '+' || c == '/') {
      value = c == '+' ? 62 : 63;
    } else {
      return std::nullopt;
    }
    bits = (bits << 6 | value) & 0xffffff;
    if ((count += 6) >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 0xff);
    }
  }
  return out;
}

std::uint32_t read_u32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

std::int64_t count_characters(std::string_view text) {
  std::int64_t count = 0;
  for_each_character(text, [&](char32_t, std::string_view) { ++count; });
  return count;
}

/// Computes how many leading bytes are aligned to byte 0 of the whole text after parts of a text
/// are replaced. As in Hugging Face tokenizers, characters without a counterpart are merged into
/// the last character of the new text, even if that character comes from an earlier part.
class Changes {
 public:
  explicit Changes(const NormalizedText& text) : tracker_(text) {}

  void replace(std::string_view from, std::string_view to) {
    if (tracker_.done()) return;
    const std::int64_t old_count = count_characters(from), new_count = count_characters(to);
    std::int64_t place = 0;
    for_each_character(to, [&](char32_t, std::string_view bytes) {
      push(bytes.size(), place++ < old_count ? 0 : 1);
    });
    if (new_count < old_count && last_bytes_ > 0) last_change_ += new_count - old_count;
  }
  std::size_t lead() {
    push(0, 0);
    return tracker_.lead();
  }

 private:
  void push(std::size_t bytes, std::int64_t change) {
    if (last_bytes_ > 0) tracker_.add(last_bytes_, last_change_);
    last_bytes_ = bytes;
    last_change_ = change;
  }
  LeadTracker tracker_;
  std::size_t last_bytes_ = 0;
  std::int64_t last_change_ = 0;
};

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(const TokenizerNode& node) {
    const auto bytes = decode_base64(node.required_string("precompiled_charsmap"));
    if (!bytes) node.corrupt("precompiled_charsmap is not valid base64");
    const std::size_t size = bytes->size() < 4 ? 0 : read_u32(*bytes, 0);
    if (bytes->size() < 4 || size % 4 != 0 || size > bytes->size() - 4) {
      node.corrupt("precompiled_charsmap is truncated");
    }
    for (std::size_t at = 4; at < size + 4; at += 4) units_.push_back(read_u32(*bytes, at));
    texts_ = bytes->substr(size + 4);
    if (!is_utf8(texts_)) node.corrupt("precompiled_charsmap contains strings that are not UTF-8");
  }

  void normalize(NormalizedText& text) const override {
    std::string out;
    out.reserve(text.text.size());
    Changes changes(text);
    const auto replace = [&](std::string_view from, std::string_view to) {
      changes.replace(from, to);
      out += to;
      text.limit.check(out.size());
    };
    for (const std::string_view cluster : graphemes(text.text)) {
      // As in Hugging Face tokenizers, replace a short cluster with the mapping of its shortest
      // known prefix.
      if (cluster.size() < 6) {
        if (const auto mapped = map(cluster)) {
          replace(cluster, *mapped);
          continue;
        }
      }
      for_each_character(cluster, [&](char32_t, std::string_view bytes) {
        replace(bytes, map(bytes).value_or(bytes));
      });
    }
    const std::size_t lead = changes.lead();  // computed before `text.text` is replaced
    text.text = utf8_lossy(out);
    text.lead = std::min(lead, text.text.size());
  }

 private:
  std::optional<std::string_view> map(std::string_view key) const {
    const auto offset = [](std::uint32_t unit) {
      return std::size_t{unit >> 10} << ((unit & (1U << 9)) >> 6);
    };
    if (units_.empty()) return std::nullopt;
    std::size_t at = offset(units_[0]);
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) break;
      at ^= byte;
      if (at >= units_.size()) return std::nullopt;
      const std::uint32_t unit = units_[at];
      if ((unit & (1U << 31 | 0xffU)) != byte) return std::nullopt;
      at ^= offset(unit);
      if ((unit >> 8 & 1U) == 0) continue;
      if (at >= units_.size()) return std::nullopt;
      const std::size_t begin = units_[at] & ~(1U << 31);
      if (begin > texts_.size()) return std::nullopt;
      const std::string_view rest = std::string_view(texts_).substr(begin);
      return rest.substr(0, rest.find('\0'));
    }
    return std::nullopt;
  }

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

}  // namespace

std::unique_ptr<Normalizer> make_precompiled(const TokenizerNode& node) {
  return std::make_unique<Precompiled>(node);
}

}  // namespace anyaccel::llm

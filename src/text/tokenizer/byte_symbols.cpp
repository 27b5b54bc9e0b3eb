#include "text/tokenizer/byte_symbols.h"

#include <unordered_map>

namespace anyaccel::llm {

namespace {

std::string utf8_below_0x800(unsigned code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

std::array<std::string, 256> make_symbols() {
  std::array<std::string, 256> symbols;
  unsigned next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    symbols[byte] = utf8_below_0x800(printable ? byte : next++);
  }
  return symbols;
}

}  // namespace

const std::array<std::string, 256>& byte_symbols() {
  static const std::array<std::string, 256> symbols = make_symbols();
  return symbols;
}

std::optional<std::string> bytes_of_symbols(std::string_view word) {
  static const auto bytes = [] {
    std::unordered_map<std::string_view, char> map;
    for (std::size_t byte = 0; byte < 256; ++byte)
      map.emplace(byte_symbols()[byte], static_cast<char>(byte));
    return map;
  }();
  std::string out;
  while (!word.empty()) {
    const std::size_t length = static_cast<unsigned char>(word[0]) < 0x80 ? 1 : 2;
    const auto it = bytes.find(word.substr(0, length));
    if (it == bytes.end()) return std::nullopt;
    out += it->second;
    word.remove_prefix(length > word.size() ? word.size() : length);
  }
  return out;
}

}  // namespace anyaccel::llm

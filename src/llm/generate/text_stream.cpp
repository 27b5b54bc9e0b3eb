#include "llm/generate/text_stream.h"

#include <algorithm>

namespace anyaccel::llm {

namespace {

/// Length in bytes of the first character; 0 if it is invalid, -1 if it is truncated.
int character(std::string_view bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  const int length = first >= 0xc2 && first <= 0xdf   ? 2
                     : (first & 0xf0) == 0xe0         ? 3
                     : first >= 0xf0 && first <= 0xf4 ? 4
                                                      : 0;
  for (int i = 1; i < length; ++i) {
    if (static_cast<std::size_t>(i) == bytes.size()) return -1;
    unsigned low = 0x80, high = 0xbf;
    // Overlong forms, surrogates and code points above U+10FFFF are detected at the second byte.
    if (i == 1 && first == 0xe0) low = 0xa0;
    if (i == 1 && first == 0xed) high = 0x9f;
    if (i == 1 && first == 0xf0) low = 0x90;
    if (i == 1 && first == 0xf4) high = 0x8f;
    if (at(static_cast<std::size_t>(i)) < low || at(static_cast<std::size_t>(i)) > high) return 0;
  }
  return length;
}

}  // namespace

std::string valid_utf8(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const int length = character(bytes);
    if (length > 0)
      out += bytes.substr(0, static_cast<std::size_t>(length));
    else
      out += "\xef\xbf\xbd";
    bytes.remove_prefix(length > 0 ? static_cast<std::size_t>(length) : 1);
  }
  return out;
}

std::size_t complete_utf8(std::string_view bytes) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    if (character(bytes.substr(bytes.size() - back)) == -1) return bytes.size() - back;
  }
  return bytes.size();
}

TextStream::TextStream(std::vector<std::string> stop, std::function<void(std::string_view)> sink)
    : stop_(std::move(stop)), sink_(std::move(sink)) {
  std::erase(stop_, std::string());
}

void TextStream::emit(std::size_t count) {
  const std::string piece = valid_utf8(std::string_view(pending_).substr(0, count));
  pending_.erase(0, count);
  text_ += piece;
  if (sink_ && !piece.empty()) sink_(piece);
}

bool TextStream::push(std::string_view bytes) {
  pending_ += bytes;
  std::size_t found = std::string::npos;
  for (const std::string& stop : stop_) found = std::min(found, pending_.find(stop));
  if (found != std::string::npos) {
    emit(found);
    pending_.clear();
    return true;
  }
  std::size_t ready = pending_.size();
  for (const std::string& stop : stop_) {
    for (std::size_t length = std::min(stop.size() - 1, pending_.size()); length > 0; --length) {
      if (std::string_view(pending_).ends_with(std::string_view(stop).substr(0, length))) {
        ready = std::min(ready, pending_.size() - length);
        break;
      }
    }
  }
  emit(complete_utf8(std::string_view(pending_).substr(0, ready)));
  return false;
}

void TextStream::finish() { emit(pending_.size()); }

}  // namespace anyaccel::llm

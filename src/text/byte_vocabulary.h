// The byte-level vocabulary: tokens 0 to 255 are the bytes.
#pragma once

#include <cstdint>

namespace anyaccel::llm {

/// End-of-text token, which follows each document.
constexpr std::uint16_t kEndOfText = 256;
/// Number of tokens in the vocabulary.
constexpr int kByteVocabulary = 257;

}  // namespace anyaccel::llm

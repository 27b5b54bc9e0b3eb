// The tokenizer files of models that are trained here.
#pragma once

#include <cstddef>
#include <string>

#include "llm/tokenizer/learn_merges.h"

namespace anyaccel::llm {

/// Ids fit 16 bits.
constexpr std::int64_t kMaxVocabulary = 65536;

/// tokenizer.json of a byte-level vocabulary with merges; without any, of bytes alone.
std::string byte_level_json(const Merges& merges);

}  // namespace anyaccel::llm

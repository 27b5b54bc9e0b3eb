// Tokenizer files for the models that we train.
#pragma once

#include <cstddef>
#include <string>

#include "text/tokenizer/learn_merges.h"

namespace anyaccel::llm {

/// Maximum vocabulary size: ids fit in 16 bits.
constexpr std::int64_t kMaxVocabulary = 65536;

/// Returns the tokenizer.json of a byte-level vocabulary with these merges. Without merges, the
/// vocabulary contains only bytes.
std::string byte_level_json(const Merges& merges);

}  // namespace anyaccel::llm

// Unicode normalization forms, computed with ICU.
#pragma once

#include "text/tokenizer/normalized_text.h"

namespace anyaccel::llm {

enum class NormalForm { nfc, nfd, nfkc, nfkd };

void apply_normal_form(NormalizedText& text, NormalForm form);

}  // namespace anyaccel::llm

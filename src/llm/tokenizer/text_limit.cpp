#include "llm/tokenizer/text_limit.h"

#include <string>

#include "anyaccel/error.h"

namespace anyaccel::llm {

void TextLimit::fail(std::size_t bytes) const {
  throw Error(ErrorCode::invalid_argument, "Tokenizer",
              {.what = "a step of the tokenizer makes too much of this text",
               .got = std::to_string(bytes) + " bytes",
               .want = "at most " + std::to_string(most_),
               .hint = "check normalizer, pre_tokenizer and decoder of tokenizer.json"});
}

}  // namespace anyaccel::llm

#include "text/tokenizer/text_limit.h"

#include <string>

#include "anyaccel/error.h"

namespace anyaccel::llm {

void TextLimit::fail(std::size_t bytes) const {
  throw Error(ErrorCode::invalid_argument, "Tokenizer",
              {.what = "a tokenizer step expands this text too much",
               .got = std::to_string(bytes) + " bytes",
               .want = "at most " + std::to_string(most_) + " bytes",
               .hint = "check the normalizer, pre_tokenizer and decoder in tokenizer.json"});
}

}  // namespace anyaccel::llm

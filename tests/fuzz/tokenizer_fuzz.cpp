// A tokenizer.json is read or refused by a typed error; what was read encodes any text or says which byte it lacks.
// sources: llm/tokenizer/added_tokens.cpp llm/tokenizer/bert_normalizer.cpp llm/tokenizer/bpe.cpp llm/tokenizer/byte_level.cpp llm/tokenizer/byte_symbols.cpp llm/tokenizer/bytes.cpp llm/tokenizer/decoders.cpp llm/tokenizer/metaspace.cpp llm/tokenizer/model.cpp llm/tokenizer/normal_form.cpp llm/tokenizer/normalized_text.cpp llm/tokenizer/normalizers.cpp llm/tokenizer/pattern.cpp llm/tokenizer/pieces.cpp llm/tokenizer/post_processors.cpp llm/tokenizer/pre_tokenizers.cpp llm/tokenizer/precompiled.cpp llm/tokenizer/read.cpp llm/tokenizer/regex.cpp llm/tokenizer/text_limit.cpp llm/tokenizer/tokenizer.cpp llm/tokenizer/unicode.cpp llm/tokenizer/unigram.cpp llm/tokenizer/utf8.cpp llm/tokenizer/vocabulary.cpp llm/tokenizer/word_finder.cpp llm/tokenizer/word_piece.cpp llm/support/json.cpp base/file.cpp base/error.cpp base/untrusted_text.cpp
// libraries: onig icuuc
#include "anyaccel/llm/tokenizer.h"

#include "anyaccel/error.h"
#include "temporary_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  const auto& folder = fuzz::folder_with("tokenizer.json", data, size);
  try {
    const auto tokenizer = llm::Tokenizer::load(folder);
    for (const std::string_view text : {"", "hello  world\n", "\xff\x00 lo<|endoftext|>w"}) {
      try {
        (void)tokenizer.decode(tokenizer.encode(text));
      } catch (const Error& error) {
        if (error.code() != ErrorCode::invalid_argument) std::abort();
      }
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::unsupported) std::abort();
  }
  return 0;
}

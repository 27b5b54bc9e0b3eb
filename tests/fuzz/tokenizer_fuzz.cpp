// A tokenizer.json is accepted, or rejected with a typed error. An accepted tokenizer encodes any
// text, or throws an error that names the byte for which the tokenizer has no token.
// sources: text/tokenizer/added_tokens.cpp text/tokenizer/bert_normalizer.cpp
// sources: text/tokenizer/bpe.cpp text/tokenizer/byte_level.cpp text/tokenizer/byte_symbols.cpp
// sources: text/tokenizer/bytes.cpp text/tokenizer/decoders.cpp text/tokenizer/metaspace.cpp
// sources: text/tokenizer/model.cpp text/tokenizer/normal_form.cpp
// sources: text/tokenizer/normalized_text.cpp text/tokenizer/normalizers.cpp
// sources: text/tokenizer/pattern.cpp text/tokenizer/pieces.cpp text/tokenizer/post_processors.cpp
// sources: text/tokenizer/pre_tokenizers.cpp text/tokenizer/precompiled.cpp text/tokenizer/read.cpp
// sources: text/tokenizer/regex.cpp text/tokenizer/text_limit.cpp text/tokenizer/tokenizer.cpp
// sources: text/tokenizer/unicode.cpp text/tokenizer/unigram.cpp text/tokenizer/utf8.cpp
// sources: text/tokenizer/vocabulary.cpp text/tokenizer/aho_corasick.cpp
// sources: text/tokenizer/word_piece.cpp text/json.cpp base/file.cpp base/error.cpp
// sources: base/untrusted_text.cpp
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

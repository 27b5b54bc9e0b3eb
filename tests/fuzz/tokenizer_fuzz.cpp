// A tokenizer.json is read or refused by a typed error; what was read encodes any text or says which byte it lacks.
// sources: llm/tokenizer/tokenizer.cpp llm/tokenizer/read.cpp llm/tokenizer/byte_symbols.cpp llm/support/json.cpp base/file.cpp base/error.cpp
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

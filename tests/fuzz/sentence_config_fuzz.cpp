// The configuration files of an encoder are accepted, or rejected with a typed error. The same
// bytes serve as config.json and as each of sentence-transformers' files.
// sources: llm/checkpoint/activation.cpp llm/embed/bert_config.cpp llm/embed/sentence_config.cpp
// sources: llm/checkpoint/config.cpp llm/checkpoint/config_check.cpp llm/checkpoint/families.cpp
// sources: llm/checkpoint/families_learned.cpp llm/checkpoint/rope_config.cpp
// sources: llm/checkpoint/stored_config.cpp text/json.cpp base/file.cpp base/error.cpp
// sources: base/untrusted_text.cpp base/file_group.cpp base/log.cpp base/env.cpp base/fork_safe.cpp
// torch
#include "llm/embed/sentence_config.h"

#include "anyaccel/error.h"
#include "llm/embed/bert_config.h"
#include "temporary_file.h"

namespace {

template <typename F>
void expect_typed(F&& read) {
  using anyaccel::ErrorCode;
  try {
    read();
  } catch (const anyaccel::Error& error) {
    // A module may name a folder that does not exist.
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::unsupported &&
        error.code() != ErrorCode::not_found) {
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  expect_typed([&] { (void)llm::read_bert_config(fuzz::folder_with("config.json", data, size)); });
  for (const char* name :
       {"modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"}) {
    const auto& folder = fuzz::folder_with(name, data, size);
    expect_typed([&] { (void)llm::read_sentence_config(folder); });
    std::filesystem::remove(folder / name);
  }
  return 0;
}

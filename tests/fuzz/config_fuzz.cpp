// A config.json is accepted, or rejected with a typed error.
// sources: llm/checkpoint/activation.cpp llm/checkpoint/config.cpp llm/checkpoint/config_check.cpp
// sources: llm/checkpoint/families.cpp llm/checkpoint/families_learned.cpp
// sources: llm/checkpoint/rope_config.cpp llm/checkpoint/stored_config.cpp text/json.cpp
// sources: base/file.cpp base/error.cpp base/untrusted_text.cpp base/file_group.cpp base/log.cpp
// sources: base/env.cpp base/fork_safe.cpp
// torch
#include "anyaccel/llm/config.h"

#include "anyaccel/error.h"
#include "temporary_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  const auto& folder = fuzz::folder_with("config.json", data, size);
  try {
    (void)llm::ModelConfig::read(folder);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::unsupported) std::abort();
  }
  return 0;
}

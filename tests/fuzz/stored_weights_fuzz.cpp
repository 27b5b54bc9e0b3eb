// A config.json and, after a zero byte, the header of the weights: a matrix of integers in a form of others (GPTQ, AWQ,
// compressed-tensors) is read or refused by a typed error.
// sources: llm/quantize/stored_weights.cpp llm/quantize/forms.cpp llm/model/names.cpp llm/checkpoint/checkpoint.cpp llm/checkpoint/safetensors.cpp llm/checkpoint/config.cpp llm/checkpoint/config_check.cpp llm/checkpoint/families.cpp llm/checkpoint/families_learned.cpp llm/checkpoint/rope_config.cpp llm/checkpoint/stored_config.cpp llm/support/json.cpp llm/support/mapped_file.cpp base/file.cpp base/file_group.cpp base/error.cpp base/untrusted_text.cpp base/log.cpp base/env.cpp base/fork_safe.cpp
// torch
// options: -timeout=10 -rss_limit_mb=1024
#include "llm/quantize/stored_weights.h"

#include <array>

#include "anyaccel/error.h"
#include "base/log.h"
#include "temporary_file.h"

namespace {

constexpr std::size_t kData = 2048;

std::string weights(std::string_view header) {
  std::string out;
  for (std::size_t size = header.size(), i = 0; i < 8; ++i, size >>= 8) out += static_cast<char>(size & 0xff);
  out.append(header);
  for (std::size_t i = 0; i < kData; ++i) out += static_cast<char>(i * 7);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  set_log_level(LogLevel::error);
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const auto zero = std::min(all.find('\0'), size);
  const std::string file = weights(all.substr(std::min(zero + 1, size)));
  fuzz::folder_with("model.safetensors", reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
  const auto& folder = fuzz::folder_with("config.json", data, zero);
  const std::array<std::int64_t, 2> shape{8, 64};
  try {
    const llm::StoredWeights stored(folder);
    stored.check("a.weight", shape);
    const llm::TensorPlan plan{.name = "a.weight", .shape = {8, 64}};
    if (!stored.is_integer("a.weight")) return 0;
    const auto floats = stored.floats(plan);
    if (floats.sizes() != at::IntArrayRef(shape)) std::abort();
    if (stored.form(plan)) (void)stored.integers(plan);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::unsupported) std::abort();
  }
  return 0;
}

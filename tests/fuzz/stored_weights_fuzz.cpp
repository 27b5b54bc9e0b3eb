// Input: a byte that selects the format, and the header of a shard with quantized weights. A weight
// is returned with the requested shape, or rejected with a typed error that names a tensor or a
// file.
// sources: llm/quantize/stored_weights.cpp llm/quantize/pack.cpp llm/model/names.cpp
// sources: llm/checkpoint/checkpoint.cpp llm/checkpoint/safetensors.cpp
// sources: llm/checkpoint/stored_config.cpp llm/checkpoint/activation.cpp llm/checkpoint/config.cpp
// sources: llm/checkpoint/config_check.cpp llm/checkpoint/families.cpp
// sources: llm/checkpoint/families_learned.cpp llm/checkpoint/rope_config.cpp text/json.cpp
// sources: llm/support/mapped_file.cpp base/file.cpp base/file_group.cpp base/error.cpp
// sources: base/untrusted_text.cpp base/log.cpp base/env.cpp base/fork_safe.cpp
// torch
// options: -timeout=10 -rss_limit_mb=1024
#include "llm/quantize/stored_weights.h"

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "anyaccel/dtype.h"
#include "anyaccel/error.h"
#include "temporary_file.h"

// Used in error messages. The real function is in a source that depends on all of core.
const char* anyaccel::dtype_name(c10::ScalarType dtype) noexcept { return c10::toString(dtype); }

namespace {

constexpr std::array<std::string_view, 4> kConfigs = {
    R"({"quantization_config":{"quant_method":"gptq","bits":4,"group_size":32}})",
    R"({"quantization_config":{"quant_method":"gptq","bits":8,"group_size":32}})",
    R"({"quantization_config":{"quant_method":"awq","bits":4,"group_size":32,"version":"gemm"}})",
    R"({"quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":
        {"weights":{"num_bits":4,"type":"int","strategy":"group","group_size":32},"targets":["Linear"]}}}})"};

/// Returns a shard with this header. The shard's data contains every byte value.
std::string shard(std::string_view header) {
  std::string out;
  for (std::size_t size = header.size(), i = 0; i < 8; ++i, size >>= 8)
    out += static_cast<char>(size & 0xff);
  out.append(header);
  for (int i = 0; i < 4096; ++i) out += static_cast<char>(i * 37);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  if (size == 0) return 0;
  const std::string_view config = kConfigs[data[0] % kConfigs.size()];
  const std::string file = shard({reinterpret_cast<const char*>(data) + 1, size - 1});
  fuzz::folder_with("config.json", reinterpret_cast<const std::uint8_t*>(config.data()),
                    config.size());
  const auto& folder = fuzz::folder_with(
      "model.safetensors", reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
  // The whole matrix, some of its rows, and some of its columns. The columns begin within a group
  // and within a packed word.
  const std::vector<std::pair<llm::TensorPlan, std::array<std::int64_t, 2>>> parts = {
      {{.name = "a.weight", .shape = {32, 64}}, {32, 64}},
      {{.name = "a.weight", .shape = {32, 64}, .dim = 0, .parts = {{3, 7}, {16, 9}}}, {16, 64}},
      {{.name = "a.weight", .shape = {32, 64}, .dim = 1, .parts = {{5, 40}}}, {32, 40}}};
  std::unique_ptr<llm::StoredWeights> weights;
  const auto attempt = [&](auto&& work) {
    try {
      work();
    } catch (const Error& error) {
      const std::string_view message = error.what();
      const bool expected = error.code() == ErrorCode::corrupt ||
                            error.code() == ErrorCode::not_found ||
                            error.code() == ErrorCode::unsupported || error.code() == ErrorCode::io;
      const bool named =
          message.find("a.") != message.npos || message.find(folder.string()) != message.npos;
      if (!expected || !named || message.size() > 4000) std::abort();
    }
  };
  attempt([&] { weights = std::make_unique<llm::StoredWeights>(folder); });
  if (!weights) return 0;
  for (const auto& [part, local] : parts) {
    const llm::TensorPlan& plan = part;
    const at::IntArrayRef shape = local;
    attempt([&] {
      weights->check(plan.name, plan.shape);
      weights->group(plan);
      if (!weights->is_integer(plan.name)) return;
      if (weights->floats(plan).sizes() != shape) std::abort();
      if (weights->form(plan)) weights->integers(plan);
    });
  }
  return 0;
}

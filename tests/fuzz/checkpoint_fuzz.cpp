// Input: a checkpoint index and, after a NUL byte, the header of the only shard. Tensors are
// returned with the requested dtype and shape, or rejected with a typed error that names a file.
// sources: llm/checkpoint/checkpoint.cpp llm/checkpoint/safetensors.cpp text/json.cpp
// sources: llm/support/mapped_file.cpp base/file.cpp base/file_group.cpp base/error.cpp
// sources: base/untrusted_text.cpp
// torch
// options: -timeout=10 -rss_limit_mb=1024
#include "llm/checkpoint/checkpoint.h"

#include <array>

#include "anyaccel/error.h"
#include "temporary_file.h"

namespace {

/// Returns a shard with this header and four floats.
std::string shard(std::string_view header) {
  std::string out;
  for (std::size_t size = header.size(), i = 0; i < 8; ++i, size >>= 8)
    out += static_cast<char>(size & 0xff);
  return out.append(header).append(16, '\0');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const auto zero = std::min(all.find('\0'), size);
  const std::string file = shard(all.substr(std::min(zero + 1, size)));
  fuzz::folder_with("a.safetensors", reinterpret_cast<const std::uint8_t*>(file.data()),
                    file.size());
  const auto& folder = fuzz::folder_with("model.safetensors.index.json", data, zero);
  const std::array<std::int64_t, 2> shape{2, 2};
  try {
    const llm::Checkpoint checkpoint(folder);
    for (const char* name : {"a", "b"}) {
      if (!checkpoint.contains(name)) continue;
      const auto tensor = checkpoint.floats(name, shape);
      if (!tensor.is_floating_point() || tensor.numel() != 4) std::abort();
    }
  } catch (const Error& error) {
    const std::string_view message = error.what();
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::not_found &&
        error.code() != ErrorCode::io)
      std::abort();
    if (message.find(folder.string()) == std::string_view::npos || message.size() > 4000)
      std::abort();
  }
  return 0;
}

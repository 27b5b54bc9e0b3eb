// A safetensors file is accepted, or rejected with a typed error. All tensors of an accepted file
// are within the bounds of the file.
// sources: llm/checkpoint/safetensors.cpp text/json.cpp llm/support/mapped_file.cpp base/file.cpp
// sources: base/error.cpp base/untrusted_text.cpp
// torch
#include "llm/checkpoint/safetensors.h"

#include <numeric>

#include "anyaccel/error.h"
#include "temporary_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace anyaccel;
  const auto& folder = fuzz::folder_with("model.safetensors", data, size);
  try {
    const llm::SafetensorsFile file(folder / "model.safetensors");
    for (const auto& [name, entry] : file.entries()) {
      const at::Tensor tensor = file.tensor(name);
      if (tensor.nbytes() != entry.end - entry.begin || tensor.nbytes() > size) std::abort();
      const auto* bytes = static_cast<const unsigned char*>(tensor.const_data_ptr());
      // The sanitizer detects a read beyond the mapping.
      static volatile unsigned sum;
      sum = std::accumulate(bytes, bytes + tensor.nbytes(), 0U);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::unsupported) std::abort();
  }
  return 0;
}

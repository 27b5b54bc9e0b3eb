#include "base/file.h"
#include "llm/checkpoint/safetensors.h"
#include "text/json.h"

namespace anyaccel::llm {

void write_safetensors(AtomicFile& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  Json header;
  header["__metadata__"] = Json::object();
  for (const auto& [key, value] : metadata) header["__metadata__"][key] = value;
  std::size_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::size_t end = offset + tensor.nbytes();
    header[name] = {{"dtype", safetensors_dtype(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // aligns the data for every dtype
  std::string size(8, '\0');
  for (int i = 0; i < 8; ++i) size[i] = static_cast<char>(text.size() >> 8 * i & 0xff);
  file.write(size);
  file.write(text);
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor host = tensor.detach().to(c10::Device(c10::kCPU)).contiguous();
    file.write(host.const_data_ptr(), host.nbytes());
  }
}

}  // namespace anyaccel::llm

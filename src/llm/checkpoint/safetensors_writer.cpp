#include "anyaccel/error.h"
#include "base/file.h"
#include "llm/checkpoint/safetensors.h"
#include "text/json.h"

namespace anyaccel::llm {

namespace {

std::size_t bytes_of(const TensorHead& head) {
  std::size_t bytes = c10::elementSize(head.dtype);
  for (const std::int64_t size : head.shape) bytes *= static_cast<std::size_t>(size);
  return bytes;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(AtomicFile& file, std::vector<TensorHead> heads,
                                     const std::map<std::string, std::string>& metadata)
    : file_(file), heads_(std::move(heads)) {
  Json header;
  header["__metadata__"] = Json::object();
  for (const auto& [key, value] : metadata) header["__metadata__"][key] = value;
  std::size_t offset = 0;
  for (const TensorHead& head : heads_) {
    const std::size_t end = offset + bytes_of(head);
    header[head.name] = {{"dtype", safetensors_dtype(head.dtype)},
                         {"shape", head.shape},
                         {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // aligns the data for every dtype
  std::string size(8, '\0');
  for (int i = 0; i < 8; ++i) size[i] = static_cast<char>(text.size() >> 8 * i & 0xff);
  file.write(size);
  file.write(text);
}

void SafetensorsWriter::write(const at::Tensor& tensor) {
  const bool expected = next_ < heads_.size() && tensor.scalar_type() == heads_[next_].dtype &&
                        tensor.sizes() == at::IntArrayRef(heads_[next_].shape);
  if (!expected)
    throw Error(ErrorCode::internal, "write_safetensors",
                {.what = "tensor " + std::to_string(next_) + " differs from the header"});
  ++next_;
  const at::Tensor host = tensor.detach().to(c10::Device(c10::kCPU)).contiguous();
  file_.write(host.const_data_ptr(), host.nbytes());
}

void SafetensorsWriter::finish() const {
  if (next_ != heads_.size())
    throw Error(ErrorCode::internal, "write_safetensors",
                {.what = "tensor " + heads_[next_].name + " is missing"});
}

void write_safetensors(AtomicFile& file, const NamedTensors& tensors,
                       const std::map<std::string, std::string>& metadata) {
  std::vector<TensorHead> heads;
  for (const auto& [name, tensor] : tensors)
    heads.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  SafetensorsWriter writer(file, std::move(heads), metadata);
  for (const auto& [name, tensor] : tensors) writer.write(tensor);
}

}  // namespace anyaccel::llm

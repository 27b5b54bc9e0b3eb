#include "anyaccel/llm/npy.h"

#include <string>

#include "base/file.h"

namespace anyaccel::llm {

void write_npy(const std::filesystem::path& path, const at::Tensor& tensor) {
  const at::Tensor host = tensor.detach().to(c10::Device(c10::kCPU), c10::kFloat).contiguous();
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (const std::int64_t size : host.sizes()) header += std::to_string(size) + ", ";
  header += "), }";
  // The 10-byte preamble and the header together are a multiple of 64 bytes. The header ends with a
  // line feed.
  header.resize((header.size() + 1 + 10 + 63) / 64 * 64 - 11, ' ');
  header += '\n';
  std::string preamble = "\x93NUMPY";
  preamble += '\x01';
  preamble += '\0';
  preamble += static_cast<char>(header.size() & 0xff);
  preamble += static_cast<char>(header.size() >> 8);
  AtomicFile file(path);
  file.write(preamble);
  file.write(header);
  file.write(host.const_data_ptr(), host.nbytes());
  file.commit();
}

}  // namespace anyaccel::llm

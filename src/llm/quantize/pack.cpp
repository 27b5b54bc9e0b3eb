// The layout of int4 matrices.
#include "llm/quantize/linear.h"

namespace anyaccel::llm {

std::int64_t int4_block(std::int64_t group) { return group % 64 == 0 ? 64 : 32; }

std::int64_t group_size(std::int64_t inputs, std::int64_t wanted) {
  if (wanted > 0) return wanted % 32 == 0 && inputs % wanted == 0 ? wanted : 0;
  for (const std::int64_t group : {128, 64, 32}) {
    if (inputs % group == 0) return group;
  }
  return 0;
}

at::Tensor pack_int4(const at::Tensor& q, std::int64_t group) {
  const std::int64_t block = int4_block(group);
  // Dimensions of a block: byte within the word, nibble within the byte, word.
  const at::Tensor planes = q.view({q.size(0), q.size(1) / block, 2, 2, block / 4});
  const at::Tensor bytes = planes.select(3, 0).bitwise_or(planes.select(3, 1).mul(16));
  return bytes.transpose(2, 3).reshape({q.size(0), q.size(1) / 2});
}

}  // namespace anyaccel::llm

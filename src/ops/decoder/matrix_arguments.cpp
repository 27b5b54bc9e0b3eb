#include "ops/decoder/arguments.h"

namespace anyaccel::ops {

Format format_of(Element element) {
  return element == Element::f32    ? Format::f32
         : element == Element::bf16 ? Format::bf16
                                    : Format::fp16;
}

void check_whole(const char* op, const char* name, const Tensor& tensor, const Tensor& first) {
  check_dense_on(op, name, tensor, first);
  if (!tensor.is_contiguous())
    fail_argument(op, std::string(name) + " is not contiguous", words(tensor),
                  "a contiguous tensor");
}

Matrix make_matrix(const char* op, const char* name, const Tensor& weight,
                   const std::optional<Tensor>& scales, const std::optional<Tensor>& zeros,
                   const Tensor& first) {
  check_whole(op, name, weight, first);
  if (weight.dim() != 2)
    fail_argument(op, std::string(name) + " is not a matrix", words(weight), "[outputs, inputs]");
  Matrix m;
  m.outputs = weight.size(0);
  m.inputs = weight.size(1);
  m.weight = weight.const_data_ptr();
  if (weight.scalar_type() != at::kChar && weight.scalar_type() != at::kByte) {
    m.format = format_of(element_of(op, name, weight));
    return m;
  }
  m.format = weight.scalar_type() == at::kChar ? Format::int8 : Format::int4;
  if (m.format == Format::int4) m.inputs *= 2;
  if (!is_given(scales) || scales->scalar_type() != at::kFloat || scales->dim() != 2 ||
      scales->size(0) != m.outputs || scales->size(1) < 1 || m.inputs % scales->size(1) ||
      m.inputs / scales->size(1) % 32)
    fail_argument(op, std::string("the scales of ") + name + " have the wrong shape or dtype",
                  scales ? words(*scales) : "none",
                  "float32 [outputs, groups], with groups of a multiple of 32 inputs");
  check_whole(op, name, *scales, first);
  m.scales = scales->const_data_ptr<float>();
  m.group = m.inputs / scales->size(1);
  if (!is_given(zeros)) return m;
  check_whole(op, name, *zeros, first);
  if (m.format == Format::int8 || zeros->scalar_type() != at::kByte ||
      zeros->sizes() != scales->sizes())
    fail_argument(op, std::string("the zeros of ") + name + " have the wrong shape or dtype",
                  words(*zeros), "uint8 with the shape of the scales; requires int4 weights");
  m.zeros = zeros->const_data_ptr<std::uint8_t>();
  return m;
}

}  // namespace anyaccel::ops

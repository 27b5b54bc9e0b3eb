#include "llm/quantize/stored_weights.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <sstream>

#include "anyaccel/dtype.h"
#include "anyaccel/error.h"
#include "llm/model/weights.h"

namespace anyaccel::llm {

namespace {

constexpr int word_bits = 32;

/// int32 [.., words] to uint8 [.., values], the lowest bits first.
at::Tensor unpack_words(const at::Tensor& words, int bits) {
  at::Tensor bytes = words.contiguous().view(c10::kByte);
  if (bits == 8) return bytes;
  return at::stack({bytes.bitwise_and(15), bytes.floor_divide(16)}, -1).flatten(-2);
}

/// AWQ has eight neighbouring outputs of a word in the order 0, 2, 4, 6, 1, 3, 5, 7.
at::Tensor in_order(const at::Tensor& values) {
  const at::Tensor places = at::tensor({0, 4, 1, 5, 2, 6, 3, 7}, at::TensorOptions().dtype(c10::kLong));
  return values.view({values.size(0), -1, 8}).index_select(2, places).flatten(1);
}

/// int8 to uint8 with 128 as its zero, or back.
at::Tensor turn_sign(const at::Tensor& values) {
  const bool sign = values.scalar_type() == c10::kChar;
  return values.contiguous().bitwise_xor(sign ? -128 : 128).view(sign ? c10::kByte : c10::kChar);
}

std::int64_t words_of(std::int64_t values, int bits) { return (values * bits + word_bits - 1) / word_bits; }

[[noreturn]] void unfit(const std::string& name, const at::Tensor& got, const std::string& want) {
  std::ostringstream text;
  text << dtype_name(got.scalar_type()) << " " << got.sizes();
  throw Error(
      ErrorCode::corrupt, "load_checkpoint",
      {.what = "tensor \"" + name + "\" does not fit the matrix that it belongs to", .got = text.str(), .want = want});
}

}  // namespace

/// Integers in a row's order: value = (q - zero) * scale.
struct StoredWeights::Plain {
  int bits = 0;
  std::int64_t outputs = 0, inputs = 0;
  at::Tensor q;       ///< uint8 [outputs, inputs]
  at::Tensor scales;  ///< float32 [outputs, groups]
  at::Tensor zeros;   ///< uint8 [outputs, groups]
  at::Tensor order;   ///< int64 [inputs]: the group of each input; undefined: neighbours, all of a size
};

StoredWeights::StoredWeights(const std::filesystem::path& folder)
    : checkpoint_(folder), config_(read_stored_config(folder)) {}

std::string StoredWeights::base(const std::string& name) const {
  const std::string suffix = ".weight";
  if (!quantized() || !name.ends_with(suffix)) return {};
  const std::string all = name.substr(0, name.size() - suffix.size());
  const auto there = [&](const char* part) {
    const std::string found = stored_name(checkpoint_, all + part);
    return checkpoint_.contains(found) ? found.substr(0, found.size() - std::string_view(part).size()) : "";
  };
  if (config_.format != StoredFormat::compressed) return there(".qweight");
  return there(".weight_scale");
}

bool StoredWeights::is_integer(const std::string& name) const { return !base(name).empty(); }

at::Tensor StoredWeights::part(const std::string& name, c10::ScalarType dtype, at::IntArrayRef shape) const {
  at::Tensor found = checkpoint_.tensor(name, shape);
  if (found.scalar_type() != dtype) unfit(name, found, std::string(dtype_name(dtype)));
  return found;
}

void StoredWeights::read_groups(Plain& out, const std::string& name) const {
  const std::int64_t groups = out.scales.size(1);
  if (checkpoint_.contains(name)) {
    at::Tensor order = part(name, c10::kInt, {out.inputs}).to(c10::kLong);
    const std::int64_t least = order.min().item<std::int64_t>(), most = order.max().item<std::int64_t>();
    // compressed-tensors fills it with -1 where it is of no use.
    if (least < 0 && most < 0) order.reset();
    if (order.defined() && (least < 0 || most >= groups))
      unfit(name, order, "groups from 0 to " + std::to_string(groups - 1));
    const bool usual = out.inputs % groups == 0 && order.defined() &&
                       order.equal(at::arange(out.inputs, order.options()).floor_divide(out.inputs / groups));
    if (!usual) out.order = order;
  }
  if (!out.order.defined() && out.inputs % groups != 0)
    unfit(name, out.scales, "scales of groups that divide " + std::to_string(out.inputs) + " inputs");
}

/// GPTQ and AWQ: a row per input (or some), a column per output (or some).
void StoredWeights::read_columns(Plain& out, const std::string& name, bool values) const {
  const bool awq = config_.format == StoredFormat::awq;
  const int bits = out.bits = config_.bits;
  const std::int64_t rows = awq ? out.inputs : words_of(out.inputs, bits);
  const at::Tensor words = part(name + ".qweight", c10::kInt, {rows, awq ? words_of(out.outputs, bits) : out.outputs});
  const at::Tensor scales = checkpoint_.tensor(name + ".scales");
  if (scales.dim() != 2 || scales.size(0) < 1 || scales.size(1) != out.outputs || !scales.is_floating_point())
    unfit(name + ".scales", scales, "floats [groups, " + std::to_string(out.outputs) + "]");
  const at::Tensor zeros = part(name + ".qzeros", c10::kInt, {scales.size(0), words_of(out.outputs, bits)});
  out.scales = scales.to(c10::kFloat).t().contiguous();
  read_groups(out, awq ? "" : name + ".g_idx");
  if (!values) return;
  at::Tensor z = unpack_words(zeros, bits);
  out.q = awq ? in_order(unpack_words(words, bits)).narrow(1, 0, out.outputs).t().contiguous()
              : unpack_words(words.t(), bits).narrow(1, 0, out.inputs);
  if (awq) z = in_order(z);
  if (config_.format == StoredFormat::gptq) z = z.add(1).bitwise_and((1 << bits) - 1);
  out.zeros = z.narrow(1, 0, out.outputs).t().contiguous();
}

/// compressed-tensors: a row per output.
void StoredWeights::read_rows(Plain& out, const std::string& name, bool values) const {
  const bool packed = checkpoint_.contains(name + ".weight_packed");
  at::Tensor weight;
  if (packed) {
    weight = checkpoint_.tensor(name + ".weight_packed");
    for (const int bits : {4, 8}) {
      if (weight.dim() == 2 && weight.size(1) == words_of(out.inputs, bits)) out.bits = bits;
    }
    if (!out.bits || weight.size(0) != out.outputs || weight.scalar_type() != c10::kInt)
      unfit(name + ".weight_packed", weight,
            "int32 [" + std::to_string(out.outputs) + ", words of " + std::to_string(out.inputs) + " values]");
  } else {
    weight = part(name + ".weight", c10::kChar, {out.outputs, out.inputs});
    out.bits = 8;
  }
  at::Tensor scales = checkpoint_.tensor(name + ".weight_scale");
  const auto column = [&](const at::Tensor& tensor) {
    const at::Tensor two = tensor.dim() == 2 ? tensor : tensor.reshape({-1, 1});
    const bool one = two.numel() == 1;
    if (two.size(1) < 1 || (two.size(0) != out.outputs && !one) ||
        (tensor.dim() == 2 && out.scales.defined() && two.size(1) != out.scales.size(1) && !one))
      unfit(name, tensor, "[" + std::to_string(out.outputs) + ", groups]");
    return one && out.scales.defined() ? two.expand_as(out.scales).contiguous()
                                       : two.expand({out.outputs, two.size(1)}).contiguous();
  };
  if (!scales.is_floating_point()) unfit(name + ".weight_scale", scales, "floats");
  out.scales = column(scales.to(c10::kFloat));
  read_groups(out, name + ".weight_g_idx");
  const std::int64_t groups = out.scales.size(1);
  at::Tensor zeros;
  if (checkpoint_.contains(name + ".weight_zero_point")) {
    zeros = checkpoint_.tensor(name + ".weight_zero_point");
    if (zeros.scalar_type() == c10::kInt) {
      zeros = part(name + ".weight_zero_point", c10::kInt, {words_of(out.outputs, out.bits), groups});
      zeros = unpack_words(zeros.t(), out.bits).narrow(1, 0, out.outputs).t().contiguous();
    } else {
      if (zeros.scalar_type() != c10::kChar) unfit(name + ".weight_zero_point", zeros, "int8 or packed int32");
      zeros = turn_sign(column(zeros)).sub(128 - (1 << (out.bits - 1)));
    }
  }
  if (!values) return;
  out.q = packed ? unpack_words(weight, out.bits).narrow(1, 0, out.inputs).contiguous() : turn_sign(weight);
  out.zeros = zeros.defined()
                  ? zeros
                  : at::full(out.scales.sizes(), 1 << (out.bits - 1), at::TensorOptions().dtype(c10::kByte));
}

StoredWeights::Plain StoredWeights::plain(const std::string& name, at::IntArrayRef shape, bool values) const {
  Plain out;
  if (shape.size() != 2) unfit(name, checkpoint_.tensor(stored_name(checkpoint_, name)), "a float tensor");
  out.outputs = shape[0];
  out.inputs = shape[1];
  if (config_.format == StoredFormat::compressed) {
    read_rows(out, base(name), values);
  } else {
    read_columns(out, base(name), values);
  }
  return out;
}

void StoredWeights::check(const std::string& name, at::IntArrayRef shape) const {
  if (is_integer(name)) {
    plain(name, shape, /*values=*/false);
  } else {
    checkpoint_.tensor(stored_name(checkpoint_, name), shape);
  }
}

at::Tensor StoredWeights::floats(const std::string& name, at::IntArrayRef shape) const {
  if (!is_integer(name)) return checkpoint_.tensor(stored_name(checkpoint_, name), shape);
  const Plain from = plain(name, shape, /*values=*/true);
  const at::Tensor q = from.q.to(c10::kFloat), zeros = from.zeros.to(c10::kFloat);
  if (from.order.defined())
    return q.sub(zeros.index_select(1, from.order)).mul_(from.scales.index_select(1, from.order));
  const std::int64_t groups = from.scales.size(1);
  return q.view({from.outputs, groups, from.inputs / groups})
      .sub(zeros.unsqueeze(-1))
      .mul_(from.scales.unsqueeze(-1))
      .view({from.outputs, from.inputs});
}

std::optional<QuantizedMatrix> StoredWeights::integers(const std::string& name, at::IntArrayRef shape) const {
  if (!is_integer(name)) return std::nullopt;
  const Plain from = plain(name, shape, /*values=*/true);
  if (from.order.defined()) return std::nullopt;
  const std::int64_t group = from.inputs / from.scales.size(1);
  if (group_size(from.inputs, group) == 0) return std::nullopt;
  if (from.bits == 4) return QuantizedMatrix{pack_int4(from.q, group), {from.scales, from.zeros}};
  if (!from.zeros.eq(128).all().item<bool>()) return std::nullopt;
  return QuantizedMatrix{turn_sign(from.q), {from.scales, {}}};
}

}  // namespace anyaccel::llm

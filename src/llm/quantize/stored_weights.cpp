#include "llm/quantize/stored_weights.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <numeric>
#include <sstream>
#include <vector>

#include "anyaccel/dtype.h"
#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "llm/model/weights.h"

namespace anyaccel::llm {

namespace {

constexpr int word_bits = 32;

/// Unpacks int32 [.., words] to uint8 [.., values], lowest bits first.
at::Tensor unpack_words(const at::Tensor& words, int bits) {
  at::Tensor whole = words.contiguous();
  // A dimension of size 1 counts as contiguous with any stride.
  if (whole.stride(-1) != 1) whole = whole.clone(c10::MemoryFormat::Contiguous);
  const at::Tensor bytes = whole.view(c10::kByte);
  if (bits == 8) return bytes;
  return at::stack({bytes.bitwise_and(15), bytes.floor_divide(16)}, -1).flatten(-2);
}

/// Restores the order of outputs: AWQ stores the eight adjacent outputs in a word in the order 0,
/// 2, 4, 6, 1, 3, 5, 7.
at::Tensor in_order(const at::Tensor& values) {
  const at::Tensor places =
      at::tensor({0, 4, 1, 5, 2, 6, 3, 7}, at::TensorOptions().dtype(c10::kLong));
  return values.view({values.size(0), -1, 8}).index_select(2, places).flatten(1);
}

/// Converts int8 to uint8 with zero point 128, or back.
at::Tensor turn_sign(const at::Tensor& values) {
  const bool sign = values.scalar_type() == c10::kChar;
  return values.contiguous().bitwise_xor(sign ? -128 : 128).view(sign ? c10::kByte : c10::kChar);
}

std::int64_t words_of(std::int64_t values, int bits) {
  return (values * bits + word_bits - 1) / word_bits;
}

at::Tensor cut(const at::Tensor& tensor, std::int64_t dim, const Slice& slice) {
  return tensor.narrow(dim, slice.begin, slice.count);
}

/// Returns the range of blocks, each of `size` indices, that covers `places`.
Slice enclosing(const Slice& places, std::int64_t size) {
  const std::int64_t begin = places.begin / size;
  return {begin, (places.begin + places.count + size - 1) / size - begin};
}

[[noreturn]] void unfit(const std::string& name, const at::Tensor& got, const std::string& want) {
  throw Error(
      ErrorCode::corrupt, "load_checkpoint",
      {.what = "tensor " + quoted_text(name) + " does not match its matrix",
       .got = std::string(dtype_name(got.scalar_type())) + " " + shortened_list(got.sizes()),
       .want = want});
}

}  // namespace

/// Size of a matrix [outputs, inputs] and the part to read.
struct StoredWeights::Window {
  std::int64_t outputs, inputs;
  Slice rows, columns;
};

/// Unpacked integers in row order: value = (q - zero) * scale.
struct StoredWeights::Plain {
  int bits = 0;
  std::int64_t outputs = 0, inputs = 0;  ///< size of the part read
  std::int64_t group = 0;                ///< number of inputs that share a scale; 0: see `order`
  at::Tensor q;                          ///< uint8 [outputs, inputs]
  at::Tensor scales;                     ///< float32 [outputs, groups]
  at::Tensor zeros;                      ///< uint8 [outputs, groups]
  /// int64 [inputs]: the group of each input; undefined if groups are `group` adjacent inputs.
  at::Tensor order;
  Slice groups;  ///< groups of the whole matrix that this part needs, before their size is adjusted
};

StoredWeights::StoredWeights(const std::filesystem::path& folder)
    : checkpoint_(folder), config_(read_stored_config(folder)) {}

std::string StoredWeights::base(const std::string& name) const {
  const std::string suffix = ".weight";
  if (!quantized() || !name.ends_with(suffix)) return {};
  const std::string all = name.substr(0, name.size() - suffix.size());
  const auto there = [&](const char* part) {
    const std::string found = stored_name(checkpoint_, all + part);
    return checkpoint_.contains(found)
               ? found.substr(0, found.size() - std::string_view(part).size())
               : "";
  };
  if (config_.format != StoredFormat::compressed) return there(".qweight");
  return there(".weight_scale");
}

bool StoredWeights::is_integer(const std::string& name) const { return !base(name).empty(); }

at::Tensor StoredWeights::part(const std::string& name, c10::ScalarType dtype,
                               at::IntArrayRef shape) const {
  at::Tensor found = checkpoint_.tensor(name, shape);
  if (found.scalar_type() != dtype) unfit(name, found, std::string(dtype_name(dtype)));
  return found;
}

/// Determines the groups of the requested inputs along dimension `dim` of the scales. `index` names
/// the optional g_idx tensor, which contains the group of each input.
void StoredWeights::read_groups(Plain& out, const Window& window, const std::string& index,
                                const std::string& name, const at::Tensor& scales,
                                std::int64_t dim) const {
  const std::int64_t inputs = window.inputs, groups = scales.size(dim);
  at::Tensor order;
  if (checkpoint_.contains(index)) {
    order = part(index, c10::kInt, {inputs}).to(c10::kLong);
    const std::int64_t least = order.min().item<std::int64_t>(),
                       most = order.max().item<std::int64_t>();
    // compressed-tensors fills an unused index with -1.
    if (least < 0 && most < 0) order.reset();
    if (order.defined() && (least < 0 || most >= groups))
      unfit(index, order, "groups from 0 to " + std::to_string(groups - 1));
    const bool usual =
        inputs % groups == 0 && order.defined() &&
        order.equal(at::arange(inputs, order.options()).floor_divide(inputs / groups));
    if (usual) order.reset();
  }
  if (order.defined()) {
    out.order = cut(order, 0, window.columns);
    out.groups = {0, groups};
    return;
  }
  if (inputs % groups != 0)
    unfit(name, scales, "a number of groups that divides " + std::to_string(inputs) + " inputs");
  out.group = inputs / groups;
  out.groups = enclosing(window.columns, out.group);
}

/// GPTQ and AWQ: one row per input or per word of inputs, one column per output or per word of
/// outputs.
void StoredWeights::read_columns(Plain& out, const std::string& name, const Window& window,
                                 Depth depth) const {
  const bool awq = config_.format == StoredFormat::awq;
  const int bits = out.bits = config_.bits;
  const std::int64_t per_word = word_bits / bits;
  const at::Tensor words = part(name + ".qweight", c10::kInt,
                                {awq ? window.inputs : words_of(window.inputs, bits),
                                 awq ? words_of(window.outputs, bits) : window.outputs});
  const at::Tensor scales = checkpoint_.tensor(name + ".scales");
  if (scales.dim() != 2 || scales.size(0) < 1 || scales.size(1) != window.outputs ||
      !scales.is_floating_point())
    unfit(name + ".scales", scales, "floats [groups, " + std::to_string(window.outputs) + "]");
  const std::int64_t groups = scales.size(0);
  const at::Tensor zeros =
      part(name + ".qzeros", c10::kInt, {groups, words_of(window.outputs, bits)});
  read_groups(out, window, awq ? "" : name + ".g_idx", name + ".scales", scales, 0);
  if (depth == Depth::shapes) return;
  // Words that contain requested integers, and the ranges of those integers within the words.
  const Slice row_words = enclosing(window.rows, per_word),
              column_words = enclosing(window.columns, per_word);
  const Slice rows{window.rows.begin - row_words.begin * per_word, window.rows.count};
  const Slice columns{window.columns.begin - column_words.begin * per_word, window.columns.count};
  at::Tensor z = unpack_words(cut(cut(zeros, 0, out.groups), 1, row_words), bits);
  if (awq) z = in_order(z);
  if (config_.format == StoredFormat::gptq) z = z.add(1).bitwise_and((1 << bits) - 1);
  out.zeros = cut(z, 1, rows).t().contiguous();
  if (depth == Depth::zeros) return;
  out.scales = cut(cut(scales, 0, out.groups), 1, window.rows).to(c10::kFloat).t().contiguous();
  if (awq) {
    const at::Tensor some = cut(cut(words, 0, window.columns), 1, row_words);
    out.q = cut(in_order(unpack_words(some, bits)), 1, rows).t().contiguous();
  } else {
    const at::Tensor some = cut(cut(words, 0, column_words), 1, window.rows);
    out.q = cut(unpack_words(some.t(), bits), 1, columns).contiguous();
  }
}

/// compressed-tensors: one row per output.
void StoredWeights::read_rows(Plain& out, const std::string& name, const Window& window,
                              Depth depth) const {
  const bool packed = checkpoint_.contains(name + ".weight_packed");
  at::Tensor weight;
  if (packed) {
    weight = checkpoint_.tensor(name + ".weight_packed");
    for (const int bits : {4, 8}) {
      if (weight.dim() == 2 && weight.size(1) == words_of(window.inputs, bits)) out.bits = bits;
    }
    if (!out.bits || weight.size(0) != window.outputs || weight.scalar_type() != c10::kInt)
      unfit(name + ".weight_packed", weight,
            "int32 [" + std::to_string(window.outputs) + ", words of " +
                std::to_string(window.inputs) + " values]");
  } else {
    weight = part(name + ".weight", c10::kChar, {window.outputs, window.inputs});
    out.bits = 8;
  }
  const std::int64_t per_word = word_bits / out.bits;
  std::int64_t groups = 0;  // unknown until the scales are read
  /// Expands a tensor in any stored form to [outputs, groups].
  const auto column = [&](const at::Tensor& tensor) {
    const at::Tensor two = tensor.dim() == 2 ? tensor : tensor.reshape({-1, 1});
    if (two.size(1) < 1 || (two.size(0) != window.outputs && two.numel() != 1) ||
        (groups != 0 && tensor.dim() == 2 && two.size(1) != groups && two.numel() != 1))
      unfit(name, tensor, "[" + std::to_string(window.outputs) + ", groups]");
    return two.expand({window.outputs, groups != 0 ? groups : two.size(1)});
  };
  const auto wanted = [&](const at::Tensor& tensor) {
    return cut(cut(tensor, 0, window.rows), 1, out.groups);
  };
  at::Tensor scales = checkpoint_.tensor(name + ".weight_scale");
  if (!scales.is_floating_point()) unfit(name + ".weight_scale", scales, "floats");
  scales = column(scales);
  groups = scales.size(1);
  read_groups(out, window, name + ".weight_g_idx", name + ".weight_scale", scales, 1);
  at::Tensor zeros;
  if (checkpoint_.contains(name + ".weight_zero_point")) {
    zeros = checkpoint_.tensor(name + ".weight_zero_point");
    if (zeros.scalar_type() == c10::kInt) {
      zeros = part(name + ".weight_zero_point", c10::kInt,
                   {words_of(window.outputs, out.bits), groups});
      const Slice words = enclosing(window.rows, per_word);
      if (depth != Depth::shapes) {
        zeros = unpack_words(cut(cut(zeros, 0, words), 1, out.groups).t(), out.bits);
        zeros = cut(zeros, 1, {window.rows.begin - words.begin * per_word, window.rows.count})
                    .t()
                    .contiguous();
      }
    } else {
      if (zeros.scalar_type() != c10::kChar)
        unfit(name + ".weight_zero_point", zeros, "int8 or packed int32");
      zeros = column(zeros);
      if (depth != Depth::shapes) zeros = turn_sign(wanted(zeros)).sub(128 - (1 << (out.bits - 1)));
    }
  }
  if (depth == Depth::shapes) return;
  out.zeros = zeros.defined() ? zeros
                              : at::full({window.rows.count, out.groups.count}, 1 << (out.bits - 1),
                                         at::TensorOptions().dtype(c10::kByte));
  if (depth == Depth::zeros) return;
  out.scales = wanted(scales).to(c10::kFloat).contiguous();
  weight = cut(weight, 0, window.rows);
  if (packed) {
    const Slice words = enclosing(window.columns, per_word);
    const Slice columns{window.columns.begin - words.begin * per_word, window.columns.count};
    out.q = cut(unpack_words(cut(weight, 1, words), out.bits), 1, columns).contiguous();
  } else {
    out.q = turn_sign(cut(weight, 1, window.columns));
  }
}

StoredWeights::Plain StoredWeights::window(const std::string& name, const Window& wanted,
                                           Depth depth) const {
  Plain out;
  if (config_.format == StoredFormat::compressed) {
    read_rows(out, base(name), wanted, depth);
  } else {
    read_columns(out, base(name), wanted, depth);
  }
  out.outputs = wanted.rows.count;
  out.inputs = wanted.columns.count;
  if (out.order.defined()) return out;
  // Make the groups end where the requested inputs end. Splitting within a group requires smaller
  // groups.
  const std::int64_t whole = out.group, begin = wanted.columns.begin;
  if (out.groups.count == 1) {
    out.group = out.inputs;
  } else {
    out.group = std::gcd(std::gcd(whole, begin), out.inputs);
  }
  if (out.group * out.groups.count == out.inputs) return out;
  const at::Tensor from = at::arange(out.inputs / out.group, at::TensorOptions().dtype(c10::kLong))
                              .mul(out.group)
                              .add(begin)
                              .floor_divide(whole)
                              .sub(out.groups.begin);
  for (at::Tensor* each : {&out.scales, &out.zeros}) {
    if (each->defined()) *each = each->index_select(1, from);
  }
  return out;
}

StoredWeights::Plain StoredWeights::plain(const TensorPlan& part, Depth depth) const {
  if (part.shape.size() != 2) {
    unfit(part.name, checkpoint_.tensor(stored_name(checkpoint_, part.name)), "a float tensor");
  }
  Window wanted{part.shape[0], part.shape[1], {0, part.shape[0]}, {0, part.shape[1]}};
  if (part.parts.empty()) return window(part.name, wanted, depth);
  Plain out;
  std::vector<at::Tensor> q, scales, zeros;
  for (const Slice& slice : part.parts) {  // only rows of a fused matrix have several slices
    (part.dim == 0 ? wanted.rows : wanted.columns) = slice;
    const std::int64_t before = out.outputs;
    out = window(part.name, wanted, depth);
    out.outputs += before;
    q.push_back(out.q), scales.push_back(out.scales), zeros.push_back(out.zeros);
  }
  if (depth == Depth::shapes || part.parts.size() == 1) return out;
  out.zeros = at::cat(zeros);
  if (depth == Depth::zeros) return out;
  out.q = at::cat(q);
  out.scales = at::cat(scales);
  return out;
}

void StoredWeights::check(const std::string& name, at::IntArrayRef shape) const {
  if (is_integer(name)) {
    plain({.name = name, .shape = shape.vec()}, Depth::shapes);
  } else {
    checkpoint_.floats(stored_name(checkpoint_, name), shape);
  }
}

std::int64_t StoredWeights::group(const TensorPlan& part) const {
  return is_integer(part.name) ? plain(part, Depth::shapes).group : 0;
}

at::Tensor StoredWeights::floats(const std::string& name, at::IntArrayRef shape) const {
  if (is_integer(name)) return floats({.name = name, .shape = shape.vec()});
  return checkpoint_.floats(stored_name(checkpoint_, name), shape);
}

at::Tensor StoredWeights::floats(const TensorPlan& part) const {
  const Plain from = plain(part, Depth::values);
  const at::Tensor q = from.q.to(c10::kFloat), zeros = from.zeros.to(c10::kFloat);
  if (from.order.defined())
    return q.sub(zeros.index_select(1, from.order)).mul_(from.scales.index_select(1, from.order));
  return q.view({from.outputs, from.inputs / from.group, from.group})
      .sub(zeros.unsqueeze(-1))
      .mul_(from.scales.unsqueeze(-1))
      .view({from.outputs, from.inputs});
}

std::optional<IntegerFormat> StoredWeights::form(const TensorPlan& part) const {
  if (!is_integer(part.name)) return std::nullopt;
  const Plain from = plain(part, Depth::zeros);
  if (from.order.defined() || group_size(from.inputs, from.group) == 0) return std::nullopt;
  if (from.bits == 8 && !from.zeros.eq(128).all().item<bool>()) return std::nullopt;
  return IntegerFormat{from.bits, from.group};
}

QuantizedMatrix StoredWeights::integers(const TensorPlan& part) const {
  const Plain from = plain(part, Depth::values);
  if (from.bits == 4) return {pack_int4(from.q, from.group), {from.scales, from.zeros}};
  return {turn_sign(from.q), {from.scales, {}}};
}

}  // namespace anyaccel::llm

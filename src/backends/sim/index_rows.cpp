#include "backends/sim/index_rows.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace anyaccel::backends::sim {

namespace {

constexpr std::int64_t kMaxIndices = 1 << 20;

enum class Form {
  none,
  reads_rows,    ///< (self, dim, index, ...): reads rows of self
  writes_rows,   ///< (self, dim, index, ...): writes rows of self, if it works in place
  embedding,     ///< (weight, indices, ...): reads rows of weight
  reads_lists,   ///< (self, indices[], ...): reads rows of self
  writes_lists,  ///< (self, indices[], ...): writes rows of self
};

Form form_of(const OpInfo& info) {
  static const std::unordered_map<std::string_view, Form> forms{
      {"aten::index_select", Form::reads_rows},     {"aten::gather", Form::reads_rows},
      {"aten::index_copy", Form::writes_rows},      {"aten::index_copy_", Form::writes_rows},
      {"aten::index_add", Form::writes_rows},       {"aten::index_add_", Form::writes_rows},
      {"aten::index_fill_", Form::writes_rows},     {"aten::index_reduce", Form::writes_rows},
      {"aten::index_reduce_", Form::writes_rows},   {"aten::scatter", Form::writes_rows},
      {"aten::scatter_", Form::writes_rows},        {"aten::scatter_add", Form::writes_rows},
      {"aten::scatter_add_", Form::writes_rows},    {"aten::scatter_reduce", Form::writes_rows},
      {"aten::scatter_reduce_", Form::writes_rows}, {"aten::embedding", Form::embedding},
      {"aten::index", Form::reads_lists},           {"aten::_unsafe_index", Form::reads_lists},
      {"aten::index_put_", Form::writes_lists},     {"aten::_index_put_impl_", Form::writes_lists},
  };
  const auto found = forms.find(info.op.schema().name());
  return found == forms.end() ? Form::none : found->second;
}

/// True if the op changes `self` in place: directly, or because it is also the result of an out=
/// form.
bool in_place(const Call& call, const at::Tensor& self) {
  return std::any_of(call.written().begin(), call.written().end(), [&](const at::Tensor& written) {
    return written.unsafeGetTensorImpl() == self.unsafeGetTensorImpl();
  });
}

bool is_index(const at::Tensor& tensor) {
  return tensor.defined() && on_device(tensor) &&
         (tensor.scalar_type() == at::kLong || tensor.scalar_type() == at::kInt) &&
         tensor.numel() <= kMaxIndices;
}

/// The position and the tensor of the only index in a list such as [None, index].
std::optional<std::pair<int, at::Tensor>> only_index(const c10::IValue& list) {
  std::optional<std::pair<int, at::Tensor>> found;
  int position = 0;
  for (const auto& each : list.toListRef()) {
    if (each.isTensor() && each.toTensor().defined()) {
      if (found) return std::nullopt;
      found.emplace(position, each.toTensor());
    }
    ++position;
  }
  return found;
}

}  // namespace

IndexRows::IndexRows(const at::Tensor& tensor, int of_dim, at::Tensor index, SimStream& stream)
    : Rows(of_dim),
      tensor_(tensor.unsafeGetTensorImpl()),
      size_(tensor.size(of_dim)),
      stream_(stream),
      index_(std::move(index)) {}

void IndexRows::submitted() {
  const std::lock_guard lock(mutex_);
  submitted_ = true;
}

void IndexRows::read() {
  const std::lock_guard lock(mutex_);
  read_locked();
}

void IndexRows::read_locked() {
  if (read_) return;
  read_ = true;
  const auto flat = index_.to(at::kLong).contiguous();
  const auto* data = flat.const_data_ptr<std::int64_t>();
  std::vector<std::int64_t> values(data, data + flat.numel());
  for (auto& value : values)
    if (value < 0) value += size_;
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  values_ = std::move(values);
  index_.reset();
}

std::optional<std::vector<std::int64_t>> IndexRows::values() {
  stream_.wait(stream_.last());
  const std::lock_guard lock(mutex_);
  // If the op is not queued yet, all work that computes the index tensor precedes it and has
  // completed.
  if (!submitted_) read_locked();
  return values_;
}

std::shared_ptr<IndexRows> index_rows(const Call& call) {
  const auto form = form_of(call.info());
  if (form == Form::none || call.stream().capture() != nullptr) return nullptr;
  const auto self = call.argument(0).toTensor();
  if (!self.defined() || !on_device(self) || self.dim() == 0) return nullptr;
  std::int64_t dim = 0;
  at::Tensor index;
  if (form == Form::reads_lists || form == Form::writes_lists) {
    const auto only = only_index(call.argument(1));
    if (!only) return nullptr;
    dim = only->first;
    index = only->second;
  } else if (form == Form::embedding) {
    index = call.argument(1).toTensor();
  } else {
    if (!call.argument(1).isInt() || !call.argument(2).isTensor()) return nullptr;
    dim = call.argument(1).toInt();
    if (dim < 0) dim += self.dim();
    index = call.argument(2).toTensor();
  }
  const bool writes = form == Form::writes_rows || form == Form::writes_lists;
  if (!is_index(index) || dim < 0 || dim >= self.dim() || writes != in_place(call, self))
    return nullptr;
  return std::make_shared<IndexRows>(self, static_cast<int>(dim), alias(index), call.stream());
}

}  // namespace anyaccel::backends::sim

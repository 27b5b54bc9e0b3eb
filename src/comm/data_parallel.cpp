#include "anyaccel/data_parallel.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <string>

#include "anyaccel/error.h"
#include "base/fnv1a.h"
#include "comm/buckets.h"

namespace anyaccel::comm {

namespace {

constexpr const char* kWhere = "DataParallel";
/// Alignment of gradients: one cache line.
constexpr std::int64_t kLineBytes = 64;

[[noreturn]] void fail(ErrorCode code, const std::string& what, const std::string& got = {},
                       const std::string& want = {}, const std::string& hint = {}) {
  throw Error(code, kWhere, {.what = what, .got = got, .want = want, .hint = hint});
}

std::string name_of(std::size_t i) { return "parameter " + std::to_string(i); }

std::int64_t bytes_of(double mib, const char* name) {
  if (!(mib > 0 && mib <= 1 << 20))
    fail(ErrorCode::invalid_argument, std::string(name) + " is out of range",
         std::to_string(mib) + " MiB", "a size above 0 and at most 1048576 MiB");
  return static_cast<std::int64_t>(mib * 1024 * 1024);
}

/// Returns the number of elements that a gradient occupies in its bucket, including padding.
std::int64_t room_for(const at::Tensor& parameter) {
  const auto line =
      std::max<std::int64_t>(1, kLineBytes / static_cast<std::int64_t>(parameter.element_size()));
  return (parameter.numel() + line - 1) / line * line;
}

void check_parameters(const std::vector<at::Tensor>& parameters) {
  if (parameters.empty()) fail(ErrorCode::invalid_argument, "the parameter list is empty");
  std::set<const void*> seen;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& parameter = parameters[i];
    if (!parameter.defined()) fail(ErrorCode::invalid_argument, name_of(i) + " is undefined");
    if (!parameter.is_floating_point() || parameter.layout() != c10::kStrided ||
        !parameter.is_leaf() || !parameter.requires_grad())
      fail(ErrorCode::invalid_argument, name_of(i) + " cannot be trained",
           std::string(c10::toString(parameter.scalar_type())) + " tensor",
           "a dense floating-point leaf tensor that requires a gradient");
    if (!seen.insert(parameter.unsafeGetTensorImpl()).second)
      fail(ErrorCode::invalid_argument, name_of(i) + " appears twice");
    if (torch::autograd::impl::post_acc_grad_hooks(parameter))
      fail(ErrorCode::invalid_state, name_of(i) + " already has a post-accumulate-grad hook", {},
           {}, "destroy its owner first, for example another DataParallel");
  }
}

/// Returns a hash of everything that must be the same on all ranks.
std::int64_t fingerprint(const std::vector<at::Tensor>& parameters, std::int64_t first,
                         std::int64_t most) {
  std::uint64_t mixed = kFnv1aStart;
  const auto add = [&](std::int64_t value) {
    mixed = fnv1a(mixed, static_cast<std::uint64_t>(value));
  };
  add(first);
  add(most);
  for (const auto& parameter : parameters) {
    add(static_cast<std::int64_t>(parameter.scalar_type()));
    add(parameter.dim());
    for (const auto size : parameter.sizes()) add(size);
  }
  return static_cast<std::int64_t>(mixed >> 1);
}

void check_same(ProcessGroup& group, std::int64_t count, std::int64_t mixed) {
  const auto all = group.all_gather(
      at::tensor({count, mixed}, at::TensorOptions().dtype(at::kLong)).view({1, 2}));
  const auto* numbers = all.const_data_ptr<std::int64_t>();
  for (std::int64_t rank = 0; rank < group.size(); ++rank)
    if (numbers[2 * rank] != numbers[0] || numbers[2 * rank + 1] != numbers[1])
      fail(
          ErrorCode::invalid_argument,
          "the parameters or buckets of rank " + std::to_string(rank) +
              " differ from those of rank 0",
          std::to_string(numbers[2 * rank]) + " parameters",
          std::to_string(numbers[0]) + " parameters with the same shapes, dtypes and bucket sizes");
}

}  // namespace

class ANYACCEL_LOCAL DataParallel::Impl {
 public:
  Impl(ProcessGroup& group, std::vector<at::Tensor> parameters, const DataParallelOptions& options);
  ~Impl();
  void finish();

  std::vector<Bucket> buckets;
  int quiet = 0;  ///< number of live NoSync objects
  mutable std::mutex mutex;
  std::vector<Work> works;  ///< reductions already started in this step

 private:
  struct Hook final : torch::autograd::PostAccumulateGradHook {
    Hook(Impl& owner, std::size_t i) : owner_(owner), i_(i) {}
    void operator()(const at::Tensor&) override { owner_.arrived(i_); }
    Impl& owner_;
    const std::size_t i_;
  };
  struct Gradient {
    at::Tensor parameter;
    at::Tensor view;  ///< view of the gradient's memory in the bucket
    std::size_t bucket = 0;
    std::int64_t place = 0;  ///< index into the bucket's flags
    bool arrived = false;
  };

  void make_bucket(const std::vector<std::size_t>& members);
  bool adopt(Gradient& gradient);
  void arrived(std::size_t i);
  void send(std::size_t bucket);

  ProcessGroup& group_;
  std::vector<Gradient> gradients_;
  /// Views of the flags at the end of each bucket. There is one flag per gradient: 1 if this rank
  /// has the gradient. After the reduction, a positive mean shows that some rank has it.
  std::vector<at::Tensor> flags_;
  std::vector<std::size_t> missing_;  ///< number of gradients that have not reached each bucket yet
};

DataParallel::Impl::Impl(ProcessGroup& group, std::vector<at::Tensor> parameters,
                         const DataParallelOptions& options)
    : group_(group) {
  const auto first = bytes_of(options.first_bucket_mb, "first_bucket_mb");
  const auto most = bytes_of(options.bucket_cap_mb, "bucket_cap_mb");
  check_parameters(parameters);
  check_same(group, static_cast<std::int64_t>(parameters.size()),
             fingerprint(parameters, first, most));
  const c10::AutoGradMode no_gradient(false);
  for (const auto& parameter : parameters) group.broadcast(parameter.detach(), 0);
  // The backward pass computes the gradients of the last parameters first.
  std::vector<Sized> items;
  std::vector<std::pair<c10::ScalarType, c10::Device>> kinds;
  for (auto it = parameters.rbegin(); it != parameters.rend(); ++it) {
    const std::pair kind(it->scalar_type(), it->device());
    const auto found = std::find(kinds.begin(), kinds.end(), kind);
    items.push_back({room_for(*it) * static_cast<std::int64_t>(it->element_size()),
                     static_cast<int>(found - kinds.begin())});
    if (found == kinds.end()) kinds.push_back(kind);
  }
  for (auto& parameter : parameters) gradients_.push_back({.parameter = std::move(parameter)});
  for (auto members : plan_buckets(items, std::min(first, most), most)) {
    for (auto& member : members) member = gradients_.size() - 1 - member;
    make_bucket(members);
  }
  for (std::size_t i = 0; i < gradients_.size(); ++i)
    torch::autograd::impl::set_post_acc_grad_hooks(gradients_[i].parameter,
                                                   std::make_unique<Hook>(*this, i));
}

DataParallel::Impl::~Impl() {
  for (const auto& gradient : gradients_)
    torch::autograd::impl::set_post_acc_grad_hooks(gradient.parameter, nullptr);
}

void DataParallel::Impl::make_bucket(const std::vector<std::size_t>& members) {
  std::int64_t size = 0;
  for (const auto i : members) size += room_for(gradients_[i].parameter);
  const auto& like = gradients_[members[0]].parameter;
  const auto count = static_cast<std::int64_t>(members.size());
  // Fill with zeros, because the padding between gradients is also reduced.
  const auto memory = at::zeros({size + count}, like.options().requires_grad(false));
  std::int64_t offset = 0;
  std::int64_t place = 0;
  for (const auto i : members) {
    Gradient& gradient = gradients_[i];
    const at::Tensor& parameter = gradient.parameter;
    gradient.view = parameter.is_non_overlapping_and_dense()
                        ? memory.as_strided(parameter.sizes(), parameter.strides(), offset)
                        : memory.narrow(0, offset, parameter.numel()).view(parameter.sizes());
    gradient.bucket = buckets.size();
    gradient.place = place++;
    offset += room_for(parameter);
  }
  flags_.push_back(memory.narrow(0, size, count));
  missing_.push_back(members.size());
  buckets.push_back({.parameters = members, .memory = memory});
}

/// Moves a gradient into its bucket. Returns false if the gradient does not exist.
bool DataParallel::Impl::adopt(Gradient& gradient) {
  const c10::AutoGradMode no_gradient(false);
  at::Tensor& now = gradient.parameter.mutable_grad();
  if (!now.defined()) return false;
  if (now.is_same(gradient.view)) return true;
  if (now.layout() != c10::kStrided)
    fail(ErrorCode::unsupported, "sparse gradients are not supported", c10::str(now.layout()),
         "a dense gradient");
  gradient.view.copy_(now);
  now = gradient.view;
  return true;
}

/// Autograd calls this on the thread that computed the gradient.
void DataParallel::Impl::arrived(std::size_t i) {
  const std::lock_guard lock(mutex);
  Gradient& gradient = gradients_[i];
  if (gradient.arrived)
    fail(ErrorCode::invalid_state, name_of(i) + " received a second gradient before finish()", {},
         {},
         "call finish() after each backward pass, or run all backward passes except the last in "
         "the scope of no_sync()");
  adopt(gradient);
  if (quiet > 0) return;
  gradient.arrived = true;
  --missing_[gradient.bucket];
  while (works.size() < buckets.size() && missing_[works.size()] == 0) {
    flags_[works.size()].fill_(1.0);
    send(works.size());
  }
}

void DataParallel::Impl::send(std::size_t bucket) {
  works.push_back(group_.all_reduce_async(buckets[bucket].memory, ReduceOp::avg));
}

void DataParallel::Impl::finish() {
  if (quiet > 0)
    fail(ErrorCode::invalid_state, "finish() was called inside the scope of no_sync()", {}, {},
         "end that scope before the last backward pass");
  const c10::AutoGradMode no_gradient(false);
  std::vector<Gradient*> absent;
  {
    const std::lock_guard lock(mutex);
    for (std::size_t bucket = works.size(); bucket < buckets.size(); ++bucket) {
      std::vector<float> have;
      for (const auto i : buckets[bucket].parameters) {
        Gradient& gradient = gradients_[i];
        const bool has = gradient.arrived || adopt(gradient);
        have.push_back(has ? 1.0F : 0.0F);
        if (has) continue;
        gradient.view.zero_();
        absent.push_back(&gradient);
      }
      flags_[bucket].copy_(at::tensor(have));
      send(bucket);
    }
  }
  for (const auto& work : works) work.wait();
  for (auto* gradient : absent) {
    const auto had_by_some = flags_[gradient->bucket][gradient->place].item<double>() > 0;
    if (had_by_some) gradient->parameter.mutable_grad() = gradient->view;
  }
  const std::lock_guard lock(mutex);
  works.clear();
  for (auto& gradient : gradients_) gradient.arrived = false;
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket)
    missing_[bucket] = buckets[bucket].parameters.size();
}

DataParallel::DataParallel(ProcessGroup& group, std::vector<at::Tensor> parameters,
                           const DataParallelOptions& options)
    : impl_(std::make_unique<Impl>(group, std::move(parameters), options)) {}
DataParallel::~DataParallel() = default;

DataParallel::NoSync::~NoSync() { --depth_; }
DataParallel::NoSync DataParallel::no_sync() { return NoSync(impl_->quiet); }

void DataParallel::finish() { impl_->finish(); }
const std::vector<DataParallel::Bucket>& DataParallel::buckets() const noexcept {
  return impl_->buckets;
}

std::size_t DataParallel::reduced() const {
  const std::lock_guard lock(impl_->mutex);
  std::size_t count = 0;
  while (count < impl_->works.size() && impl_->works[count].done()) ++count;
  return count;
}

}  // namespace anyaccel::comm

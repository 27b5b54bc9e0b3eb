#include "conformance/mutant_parts.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/add_cpu_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/exp_cpu_dispatch.h>
#include <ATen/ops/gelu_backward_cpu_dispatch.h>
#include <ATen/ops/mul_cpu_dispatch.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include <optional>
#include <set>

#include "anyaccel/accelerator.h"

namespace anyaccel::test {

namespace {

class Part {
 public:
  explicit Part(std::string defect) : defect_(std::move(defect)) {}
  bool is(const char* defect) const noexcept { return defect_ == defect; }

 private:
  std::string defect_;
};

class MutantEvent final : public sdk::EventImpl, private Part {
 public:
  MutantEvent(std::shared_ptr<sdk::EventImpl> inner, const std::string& defect)
      : Part(defect), inner_(std::move(inner)) {}
  void record(const Stream& stream) override {
    if (is("event_not_recorded_again") && recorded_before_) return;
    recorded_before_ = true;
    device_ = stream.device_index();
    inner_->record(is("event_records_current_stream") ? get_accelerator().current_stream(device_)
                                                      : stream);
  }
  void wait(const Stream& stream) override {
    if (is("event_wait_on_other_device_ignored") && stream.device_index() != device_) return;
    if (!is("event_wait_ignored")) inner_->wait(stream);
  }
  bool query() const override {
    if (is("event_never_done")) return false;
    return is("event_always_done") || inner_->query();
  }
  void synchronize() const override {
    if (!is("event_synchronize_returns")) inner_->synchronize();
  }
  double elapsed_time(const sdk::EventImpl& end) const override {
    const double ms = inner_->elapsed_time(*static_cast<const MutantEvent&>(end).inner_);
    if (is("elapsed_time_zero") || is("trait_host_timers_lie")) return 0;
    if (is("elapsed_time_in_seconds")) return ms / 1000;
    return is("elapsed_time_backwards") ? -ms : ms;
  }

 private:
  std::shared_ptr<sdk::EventImpl> inner_;
  bool recorded_before_ = false;
  DeviceIndex device_ = 0;
};

class MutantGraph final : public sdk::GraphImpl, private Part {
 public:
  MutantGraph(std::shared_ptr<sdk::GraphImpl> inner, const std::string& defect)
      : Part(defect), inner_(std::move(inner)) {}
  void capture_begin(std::optional<GraphPool> pool) override {
    inner_->capture_begin(is("graph_pool_lost") ? std::nullopt : pool);
  }
  void capture_end() override {
    ended_late_ = is("capture_goes_on");
    if (!ended_late_) inner_->capture_end();
  }
  void replay() override {
    if (ended_late_) inner_->capture_end();
    ended_late_ = false;
    const int times = is("graph_replays_nothing") || (is("graph_replays_once") && replays_ > 0) ? 0
                      : is("graph_replays_twice")                                               ? 2
                                                                                                : 1;
    ++replays_;
    std::optional<StreamGuard> own_stream;
    if (is("graph_replays_on_own_stream"))
      own_stream.emplace(get_accelerator(), get_accelerator().Stream());
    for (int i = 0; i < times; ++i) inner_->replay();
  }
  void reset() override {
    if (!is("graph_never_reset")) inner_->reset();
  }
  GraphPool pool() const override { return inner_->pool(); }

 private:
  std::shared_ptr<sdk::GraphImpl> inner_;
  bool ended_late_ = false;
  int replays_ = 0;
};

class MutantGenerator final : public c10::GeneratorImpl, private Part {
 public:
  MutantGenerator(at::Generator inner, const std::string& defect)
      : GeneratorImpl(inner.device(), inner.key_set()), Part(defect), inner_(std::move(inner)) {}
  void set_current_seed(std::uint64_t seed) override {
    if (is("generator_seed_of_32_bits")) seed &= 0xFFFFFFFF;
    if (!is("generator_ignores_seed")) inner_.set_current_seed(seed);
  }
  void set_offset(std::uint64_t offset) override { inner_.set_offset(offset); }
  std::uint64_t get_offset() const override {
    return is("generator_offset_stays_zero") ? 0 : inner_.get_offset();
  }
  std::uint64_t current_seed() const override {
    return is("generator_forgets_seed") ? 0 : inner_.current_seed();
  }
  std::uint64_t seed() override {
    if (!is("generator_seeds_alike")) return inner_.seed();
    inner_.set_current_seed(1);
    return 1;
  }
  void set_state(const c10::TensorImpl& state) override {
    if (is("generator_takes_short_state") && state.numel() != inner_.get_state().numel()) return;
    if (!is("generator_state_not_restored")) inner_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    if (is("generator_state_empty"))
      return at::empty({0}, at::TensorOptions().dtype(c10::kByte)).getIntrusivePtr();
    if (is("generator_state_is_shared") && shared_.defined())
      inner_.unsafeGetGeneratorImpl()->set_state(*shared_.unsafeGetTensorImpl());
    auto state = at::Tensor::wrap_tensor_impl(inner_.unsafeGetGeneratorImpl()->get_state());
    if (is("generator_state_is_shared")) shared_ = state;
    if (!is("generator_state_is_one_tensor")) return state.getIntrusivePtr();
    if (!shared_.defined()) shared_ = state;
    return shared_.copy_(state).getIntrusivePtr();
  }

 private:
  GeneratorImpl* clone_impl() const override { return inner_.clone().unsafeReleaseGeneratorImpl(); }
  at::Generator inner_;
  mutable at::Tensor shared_;
};

class Pretender final : public sdk::OpBuilder, private Part {
 public:
  Pretender(std::string class_name, const std::string& defect)
      : Part(defect), class_name_(std::move(class_name)) {}
  std::string class_name() const override { return class_name_; }
  std::string name() const override { return "pretender"; }
  Compatibility is_compatible() const noexcept override {
    return {false, is("builder_pretends") ? "not here" : ""};
  }
  void load() override {
    if (!is("builder_pretends"))
      throw Error(ErrorCode::unsupported, "OpBuilder::load", {.what = "not implemented"});
  }

 private:
  std::string class_name_;
};

class BuilderThatLoadsOnce final : public sdk::OpBuilder {
 public:
  explicit BuilderThatLoadsOnce(std::shared_ptr<sdk::OpBuilder> inner) : inner_(std::move(inner)) {}
  std::string class_name() const override { return inner_->class_name(); }
  std::string name() const override { return inner_->name(); }
  Compatibility is_compatible() const noexcept override { return inner_->is_compatible(); }
  void load() override {
    static std::set<std::string> loaded;
    if (loaded.count(class_name()) == 1)
      throw Error(ErrorCode::build_failed, "OpBuilder::load",
                  {.what = "the op is registered already"});
    inner_->load();
    loaded.insert(class_name());
  }
  std::vector<std::string> sources() const override { return inner_->sources(); }
  std::vector<std::string> include_paths() const override { return inner_->include_paths(); }

 private:
  std::shared_ptr<sdk::OpBuilder> inner_;
};

at::Tensor wrong_exp(const at::Tensor& x) {
  auto y = at::cpu::exp(x);
  return x.scalar_type() == c10::kFloat ? at::cpu::mul(y, at::scalar_tensor(1.001, y.options()))
                                        : y;
}

at::Tensor wrong_mul(const at::Tensor& x, const at::Tensor& y) {
  auto z = at::cpu::mul(x, y);
  if (z.scalar_type() != c10::kBFloat16) return z;
  auto* data = static_cast<std::uint16_t*>(z.data_ptr());
  for (std::int64_t i = 0; i < z.numel(); ++i) data[i] &= 0xFFF8;
  return z;
}

at::Tensor wrong_gelu_backward(const at::Tensor& gradient, const at::Tensor& x,
                               c10::string_view approximate) {
  auto result = at::cpu::gelu_backward(gradient, x, approximate);
  return x.scalar_type() == c10::kFloat ? result.neg_() : result;
}

// The kit computes the expected result in float64, also on the CPU.
at::Tensor add_without_alpha(const at::Tensor& x, const at::Tensor& y, const at::Scalar& alpha) {
  return x.scalar_type() == c10::kFloat ? at::cpu::add(x, y) : at::cpu::add(x, y, alpha);
}

at::Tensor wrong_add(const at::Tensor& x, const at::Tensor& y, const at::Scalar& alpha) {
  auto z = at::cpu::add(x, y, alpha);
  if (z.scalar_type() == c10::kFloat && z.is_contiguous() && z.numel() > 0)
    static_cast<float*>(z.data_ptr())[z.numel() - 1] = -77;
  return z;
}

}  // namespace

std::shared_ptr<sdk::EventImpl> mutant_event(std::shared_ptr<sdk::EventImpl> inner,
                                             const std::string& defect) {
  return std::make_shared<MutantEvent>(std::move(inner), defect);
}

std::shared_ptr<sdk::GraphImpl> mutant_graph(std::shared_ptr<sdk::GraphImpl> inner,
                                             const std::string& defect) {
  return std::make_shared<MutantGraph>(std::move(inner), defect);
}

at::Generator mutant_generator(at::Generator inner, const std::string& defect) {
  return at::make_generator<MutantGenerator>(std::move(inner), defect);
}

std::shared_ptr<sdk::OpBuilder> builder_that_loads_once(std::shared_ptr<sdk::OpBuilder> inner) {
  return std::make_shared<BuilderThatLoadsOnce>(std::move(inner));
}

std::shared_ptr<sdk::OpBuilder> mutant_builder(const std::string& class_name,
                                               const std::string& defect) {
  if (defect != "builder_pretends" && defect != "builder_without_reason") return nullptr;
  return std::make_shared<Pretender>(class_name, defect);
}

void break_kernel(const std::string& defect) {
  static auto* library =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__);
  if (defect == "op_wrong_float32") library->impl("exp", wrong_exp);
  if (defect == "op_wrong_bfloat16") library->impl("mul.Tensor", wrong_mul);
  if (defect == "op_wrong_gradient") library->impl("gelu_backward", wrong_gelu_backward);
  if (defect == "op_wrong_alpha") library->impl("add.Tensor", add_without_alpha);
  if (defect == "op_wrong_tail") library->impl("add.Tensor", wrong_add);
}

}  // namespace anyaccel::test

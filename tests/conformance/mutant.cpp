#include "conformance/mutant.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/core/CPUAllocator.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stdexcept>

#include "anyaccel/accelerator.h"
#include "anyaccel/registry.h"
#include "anyaccel/sdk/registration.h"
#include "conformance/mutant_comm.h"
#include "conformance/mutant_parts.h"

namespace anyaccel::test {

namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

class Mutant final : public sdk::Backend {
 public:
  Mutant(sdk::Traits traits, sdk::Backend& inner, const std::string& defect)
      : Backend(std::move(traits)), inner_(inner), defect_(defect) {
    spoil_traits();
    if (defect.rfind("op_wrong", 0) == 0) break_kernel(defect);
    break_device(defect, inner.device_type());
  }

  DeviceIndex device_count() const noexcept override {
    const auto count = inner_.device_count();
    if (is("device_count_zero") || (is("device_count_lost_after_fork") && ::getpid() != pid_))
      return 0;
    return is("device_count_grows") ? count + calls_++ : count;
  }
  DeviceIndex current_device() const override {
    if (is("current_device_stuck")) return 0;
    return is("device_shared_by_threads") ? shared_device_.load() : inner_.current_device();
  }
  void set_device(DeviceIndex index) override {
    if (is("set_device_ignored")) return;
    if (is("set_device_off_by_one") && index + 1 < inner_.device_count()) ++index;
    shared_device_ = index;
    inner_.set_device(index);
  }
  void synchronize(DeviceIndex index) override {
    if (is("synchronize_does_nothing")) return;
    if (is("synchronize_current_stream_only"))
      return inner_.current_stream(index).unwrap().synchronize();
    if (is("synchronize_current_device_only")) index = inner_.current_device();
    try {
      inner_.synchronize(index);
    } catch (const std::exception&) {
      if (!is("synchronize_hides_errors")) throw;
    }
    if (is("synchronize_changes_device")) inner_.set_device(index);
  }
  bool is_initialized() const noexcept override {
    return !is("never_initialized") && inner_.is_initialized();
  }
  DeviceProperties properties(DeviceIndex index) const override {
    if (is("getters_fail_after_fork") && ::getpid() != pid_)
      throw std::runtime_error("the device is lost after fork");
    auto properties = inner_.properties(index);
    if (is("properties_without_memory")) properties.total_memory = 0;
    if (is("properties_other_memory"))
      properties.total_memory = 2 * inner_.memory_info(index).total;
    if (is("capability_negative")) properties.compute_capability = std::pair(-1, 0);
    return properties;
  }
  DtypeSupport dtype_support(DeviceIndex index, c10::ScalarType dtype) const override {
    if (is("dtype_support_fails_after_fork") && ::getpid() != pid_)
      throw std::runtime_error("the device cannot be queried in a forked child");
    auto support = inner_.dtype_support(index, dtype);
    if (is("claims_every_dtype")) return {true, true, true, true};
    if (is("claims_storage")) support.storable = true;
    if (is("claims_reducible")) support.reducible = true;
    if (is("denies_float32") && dtype == c10::kFloat) return {};
    if (is("denies_bfloat16") && dtype == c10::kBFloat16) return {};
    if (is("denies_arithmetic") && dtype == c10::kInt) return {.storable = true};
    if (is("fast_but_not_computable")) support.fast = !support.computable;
    if (is("computable_but_not_storable")) support.storable = false;
    if (is("dtype_of_no_device")) support.fast = (calls_++ * 2654435761U >> 16) % 2 == 0;
    return support;
  }

  at::Generator default_generator(DeviceIndex index) const override {
    const auto real = inner_.default_generator(is("generator_of_another_device") ? 0 : index);
    if (is("generator_new_each_time")) return real.clone();
    if (is("generator_detached")) {
      static const auto detached = at::detail::createCPUGenerator();
      return detached;
    }
    return generator_of(index, real);
  }

  Stream current_stream(DeviceIndex index) const override {
    if (is("current_stream_stuck")) return inner_.default_stream(index);
    if (is("stream_shared_by_threads")) {
      const std::lock_guard lock(mutex_);
      if (const auto found = shared_streams_.find(index); found != shared_streams_.end())
        return found->second;
    }
    return inner_.current_stream(index);
  }
  void set_stream(const Stream& stream) override {
    if (is("set_stream_ignored")) return;
    inner_.set_stream(stream);
    if (is("set_stream_resets_other_devices"))
      for (DeviceIndex other = 0; other < inner_.device_count(); ++other)
        if (other != stream.device_index()) inner_.set_stream(inner_.default_stream(other));
    const std::lock_guard lock(mutex_);
    shared_streams_.insert_or_assign(stream.device_index(), stream);
  }
  Stream default_stream(DeviceIndex index) const override {
    return is("default_stream_moves") ? inner_.current_stream(index) : inner_.default_stream(index);
  }
  Stream new_stream(DeviceIndex index, int priority) override {
    if (is("new_stream_is_default") || (is("priority_stream_is_default") && priority != 0))
      return inner_.default_stream(index);
    if (is("new_stream_elsewhere")) return inner_.new_stream(0, priority);
    const auto stream = inner_.new_stream(index, priority);
    if (is("new_stream_becomes_current")) inner_.set_stream(stream);
    if (!is("new_streams_alike")) return stream;
    const std::lock_guard lock(mutex_);
    return one_stream_.try_emplace(index, stream).first->second;
  }
  std::shared_ptr<sdk::EventImpl> new_event(DeviceIndex index, bool enable_timing) override {
    return mutant_event(inner_.new_event(index, enable_timing), defect_);
  }

  MemoryStats memory_stats(DeviceIndex index) const override {
    auto stats = inner_.memory_stats(is("stats_of_device_0") ? 0 : index);
    auto& bytes = stats.allocated_bytes;
    if (is("stats_zero")) bytes = {};
    if (is("stats_never_fall")) bytes.current = bytes.peak;
    if (is("stats_in_kilobytes")) bytes = {bytes.current / 1024, bytes.peak / 1024};
    if (is("peak_is_current")) bytes.peak = bytes.current;
    if (is("peak_resets_to_zero")) bytes.peak = 0;
    if (is("reserved_below_allocated")) stats.reserved_bytes.current = bytes.current / 2;
    if (is("allocation_count_wrong")) stats.allocation_count = {};
    if (is("ooms_not_counted")) stats.num_ooms = 0;
    return stats;
  }
  MemoryInfo memory_info(DeviceIndex index) const override {
    if (is("untyped_refusal")) throw std::runtime_error("this device does not report its memory");
    const auto info = inner_.memory_info(index);
    if (is("total_memory_zero")) return {info.free, 0};
    if (is("free_above_total")) return {info.total + 1, info.total};
    if (is("free_never_falls")) return {info.total, info.total};
    return info;
  }
  void reset_peak_memory_stats(DeviceIndex index) override {
    if (!is("peak_never_resets")) inner_.reset_peak_memory_stats(index);
    if (is("peak_reset_on_all_devices"))
      for (DeviceIndex other = 0; other < inner_.device_count(); ++other)
        inner_.reset_peak_memory_stats(other);
  }
  void empty_cache() override {
    if (is("empty_cache_throws")) fail_unsupported("empty_cache", "releasing cached memory");
    if (!is("empty_cache_keeps")) inner_.empty_cache();
  }
  c10::Allocator* host_allocator() const override {
    if (is("torch_pins_everything"))
      return nullptr;  // otherwise, Accelerator::is_pinned() would also report the memory as pinned
    return is("host_allocator_ordinary") ? c10::GetCPUAllocator() : inner_.host_allocator();
  }
  bool register_host_memory(void* address, std::size_t bytes) override {
    if (is("register_only_says_so") || is("unregister_throws")) return true;
    return inner_.register_host_memory(address, bytes);
  }
  void unregister_host_memory(void* address) override {
    if (is("unregister_throws")) fail_unsupported("unregister_host_memory", "unregistering memory");
    inner_.unregister_host_memory(address);
  }

  std::shared_ptr<sdk::GraphImpl> new_graph() override {
    if (is("refusal_without_words"))
      throw Error(ErrorCode::unsupported, "create_graph", {.what = ""});
    if (!is("graphs_share_work")) return mutant_graph(inner_.new_graph(), defect_);
    static const auto one = mutant_graph(inner_.new_graph(), defect_);
    return one;
  }
  bool is_current_stream_capturing() const override {
    if (is("capturing_never_told")) return false;
    return is("capturing_always_told") || inner_.is_current_stream_capturing();
  }

  std::shared_ptr<sdk::OpBuilder> create_op_builder(const std::string& class_name) override {
    if (is("builder_not_found")) return nullptr;
    const bool known = sdk::find_op_builder(traits_.name, class_name) != nullptr;
    if (is("builder_of_another_op") && known)
      return Backend::create_op_builder(sdk::registered_op_builders(traits_.name).front());
    if (!known)
      if (auto builder = mutant_builder(class_name, defect_)) return builder;
    auto builder = Backend::create_op_builder(class_name);
    return is("builder_loads_once") && builder ? builder_that_loads_once(std::move(builder))
                                               : builder;
  }

  void range_push(const std::string& message, const std::string& domain,
                  const std::string& category) override {
    if (is("trait_nvtx_domain_lies") && !domain.empty())
      throw Error(ErrorCode::invalid_argument, "range_push", {.what = "domains are not supported"});
    ++open_ranges_;
    ++ranges_of_all_threads_;
    if (!is("range_lost")) inner_.range_push(message, domain, category);
  }
  void range_pop(const std::string& domain) override {
    if (is("range_pop_refuses"))
      throw Error(ErrorCode::invalid_state, "range_pop", {.what = "no range is open"});
    const bool open = open_ranges_ > 0;
    if (open) --open_ranges_;
    if (is("range_shared_by_threads")) {
      if (ranges_of_all_threads_ == 0)
        throw Error(ErrorCode::invalid_state, "range_pop", {.what = "no range is open"});
      --ranges_of_all_threads_;
      if (open) inner_.range_pop(domain);
      return;
    }
    if (is("range_pop_silent") && !open) return;
    if (is("range_lost") && open) return;
    inner_.range_pop(domain);
  }

 private:
  bool is(const char* defect) const noexcept { return defect_ == defect; }

  void spoil_traits() {
    if (is("trait_class_name_empty")) traits_.class_name.clear();
    if (is("trait_device_type_wrong")) traits_.device_type = "nonsense";
    if (is("trait_indexed_names_wrong")) traits_.indexed_names = !traits_.indexed_names;
    if (is("trait_synchronized_lies")) traits_.synchronized = true;
    if (is("trait_asynchronous_lies")) traits_.synchronized = false;
    if (is("trait_vendor_lost")) traits_.vendor = "another maker";
    if (is("trait_host_timers_lie")) traits_.use_host_timers = false;
    if (is("trait_data_dependency_lies")) traits_.resolves_data_dependency = true;
    if (is("trait_backpressure_lies")) traits_.handles_memory_backpressure = true;
    if (is("trait_nvtx_domain_lies")) traits_.supports_nvtx_domain = true;
    if (is("trait_host_before_devices")) traits_.priority = 100;
    if (is("trait_fp64_lies")) traits_.fp64 = false;
    if (is("trait_communication_empty")) traits_.communication_backend.clear();
    if (is("trait_compile_backend_unknown")) traits_.compile_backend.clear();
    if (is("trait_visible_devices_twice"))
      traits_.visible_devices_envs = {"MY_DEVICES", "MY_DEVICES"};
    if (is("trait_visible_devices_nonsense")) traits_.visible_devices_envs = {"my devices"};
    if (is("trait_visible_devices_ignored"))
      traits_.visible_devices_envs = {"MUTANT_VISIBLE_DEVICES"};
    if (is("trait_export_nonsense")) traits_.export_envs = {"1ST=x"};
    if (is("trait_start_without_reason")) traits_.start_environment = {{"MUTANT_START", "1", ""}};
    if (is("trait_probe_disagrees"))
      traits_.probe = []() noexcept { return sdk::Probe{0, "found nothing"}; };
    if (is("trait_op_builder_dir_empty")) traits_.op_builder_dir.clear();
  }

  /// Returns the same generator object for a device at every call, as the interface requires.
  at::Generator generator_of(DeviceIndex index, const at::Generator& real) const {
    if (defect_.rfind("generator_", 0) != 0) return real;
    const std::lock_guard lock(mutex_);
    const auto found = generators_.find(index);
    return found != generators_.end()
               ? found->second
               : generators_.emplace(index, mutant_generator(real, defect_)).first->second;
  }

  sdk::Backend& inner_;
  const std::string defect_;
  const pid_t pid_ = ::getpid();
  mutable std::atomic<int> calls_{0};
  std::atomic<DeviceIndex> shared_device_{0};
  mutable std::mutex mutex_;
  std::map<DeviceIndex, Stream> shared_streams_, one_stream_;
  mutable std::map<DeviceIndex, at::Generator> generators_;
  std::atomic<int> ranges_of_all_threads_{0};
  static inline thread_local int open_ranges_ = 0;
};

std::shared_ptr<sdk::Backend> make_mutant() {
  const auto defect = variable("MUTANT", "");
  const auto known = mutant_defects();
  if (!defect.empty() && std::find(known.begin(), known.end(), defect) == known.end())
    throw Error(ErrorCode::invalid_argument, "mutant", {.what = "unknown defect", .got = defect});
  set_accelerator(variable("MUTANT_OF", "cpu"));
  // Accelerators are never destroyed, so the reference remains valid.
  auto& inner = get_accelerator().backend();
  auto traits = inner.traits();
  traits.name = "mutant";
  if (const auto comm = register_mutant_comm(defect); !comm.empty())
    traits.communication_backend = comm;
  return std::make_shared<Mutant>(traits, inner, defect);
}

}  // namespace

void register_mutant() {
  sdk::Traits traits;
  traits.name = "mutant";
  traits.class_name = "Mutant_Accelerator";
  traits.device_type = "cpu";
  traits.priority = -1000;  // never selected automatically
  register_backend({traits, make_mutant, [] { return sdk::Probe{1, "always there"}; }});
}

}  // namespace anyaccel::test

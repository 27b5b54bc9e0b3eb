// Default implementations of a backend's optional functions.
#include "anyaccel/sdk/backend.h"

#include <ATen/record_function.h>

#include <vector>

#include "anyaccel/error.h"
#include "base/untrusted_text.h"
#include "core/device_type.h"

namespace anyaccel::sdk {

namespace {

[[noreturn]] void fail_not_implemented(const char* where, const char* feature) {
  throw Error(ErrorCode::unsupported, where,
              {.what = std::string(feature) + " is not supported by this backend"});
}

c10::DeviceType require_device_type(const Traits& traits) {
  if (const auto type = find_device_type(traits.device_type)) return *type;
  throw Error(ErrorCode::unavailable, traits.name.empty() ? "Backend" : traits.name,
              {.what = "this process's LibTorch does not support the device type",
               .got = quoted_text(traits.device_type),
               .hint = "load the vendor's library first"});
}

// Open profiler ranges on this thread, innermost last. A torch profiler scope must end on the
// thread where it began, and scopes must be nested.
std::vector<std::unique_ptr<at::RecordFunction>>& open_ranges() {
  static thread_local std::vector<std::unique_ptr<at::RecordFunction>> ranges;
  return ranges;
}

}  // namespace

Backend::Backend(Traits traits)
    : traits_(std::move(traits)), device_type_(require_device_type(traits_)) {}

void Backend::fail_unsupported(const char* where, const std::string& feature,
                               const std::string& reason) const {
  throw Error(ErrorCode::unsupported, where,
              {.what = feature + " is not supported by the accelerator '" + traits_.name + "'" +
                       (reason.empty() ? "" : ": " + reason)});
}

DeviceProperties Backend::properties(DeviceIndex /*index*/) const {
  DeviceProperties properties;
  properties.vendor = traits_.vendor;
  properties.triton = traits_.triton;
  return properties;
}

std::shared_ptr<OpBuilder> Backend::create_op_builder(const std::string& class_name) {
  const auto factory = find_op_builder(traits_.name, class_name);
  return factory ? factory() : nullptr;
}

void EventImpl::wait(const Stream& /*stream*/) {}
bool EventImpl::query() const { return true; }
void EventImpl::synchronize() const {}
GraphPool GraphImpl::pool() const {
  fail_not_implemented("Graph::pool", "sharing a graph's memory pool");
}

bool DeviceInterface::is_initialized() const noexcept { return true; }
DeviceProperties DeviceInterface::properties(DeviceIndex /*index*/) const { return {}; }
DtypeSupport DeviceInterface::dtype_support(DeviceIndex /*index*/, c10::ScalarType dtype) const {
  const bool plain = c10::isIntegralType(dtype, true) || dtype == c10::kFloat ||
                     dtype == c10::kHalf || dtype == c10::kBFloat16 || dtype == c10::kDouble;
  // torch does not support arithmetic on the wider unsigned types, and supports little on bool.
  // Communication backends generally cannot reduce int16.
  const bool arithmetic = plain && dtype != c10::kBool && !c10::isBarebonesUnsignedType(dtype);
  return {.storable = plain,
          .computable = arithmetic,
          .fast = arithmetic && dtype != c10::kDouble,
          .reducible = (arithmetic && dtype != c10::kShort) || dtype == c10::kBool};
}

Stream StreamInterface::default_stream(DeviceIndex index) const {
  return {c10::Stream(c10::Stream::DEFAULT, current_stream(index).unwrap().device()), index};
}
Stream StreamInterface::new_stream(DeviceIndex /*index*/, int /*priority*/) {
  fail_not_implemented("Stream", "creating streams");
}
std::shared_ptr<EventImpl> StreamInterface::new_event(DeviceIndex /*index*/,
                                                      bool /*enable_timing*/) {
  fail_not_implemented("Event", "creating events");
}

MemoryStats MemoryInterface::memory_stats(DeviceIndex /*index*/) const {
  fail_not_implemented("memory_stats", "counting allocated memory");
}
MemoryInfo MemoryInterface::memory_info(DeviceIndex /*index*/) const {
  fail_not_implemented("memory_info", "querying a device's memory");
}
void MemoryInterface::reset_peak_memory_stats(DeviceIndex /*index*/) {
  fail_not_implemented("reset_peak_memory_stats", "counting allocated memory");
}
void MemoryInterface::empty_cache() {}
c10::Allocator* MemoryInterface::host_allocator() const { return nullptr; }
bool MemoryInterface::register_host_memory(void* /*address*/, std::size_t /*bytes*/) {
  return false;
}
void MemoryInterface::unregister_host_memory(void* /*address*/) {}

std::shared_ptr<GraphImpl> GraphInterface::new_graph() {
  fail_not_implemented("create_graph", "capturing graphs");
}
bool GraphInterface::is_current_stream_capturing() const { return false; }

std::shared_ptr<OpBuilder> OpsInterface::create_op_builder(const std::string& /*class_name*/) {
  return nullptr;
}

void EnvironmentInterface::range_push(const std::string& message, const std::string& /*domain*/,
                                      const std::string& /*category*/) {
  auto range = std::make_unique<at::RecordFunction>(at::RecordScope::USER_SCOPE);
  if (range->isActive()) range->before(message);
  open_ranges().push_back(std::move(range));
}

void EnvironmentInterface::range_pop(const std::string& /*domain*/) {
  auto& ranges = open_ranges();
  if (ranges.empty())
    throw Error(ErrorCode::invalid_state, "range_pop",
                {.what = "no range is open on this thread", .hint = "call range_push() first"});
  ranges.pop_back();
}

}  // namespace anyaccel::sdk

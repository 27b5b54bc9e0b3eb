// Member functions of Accelerator: construction, properties, profiling, ops and environment.
#include "anyaccel/accelerator.h"

#include <algorithm>
#include <exception>

#include "anyaccel/sdk/backend.h"
#include "base/log.h"
#include "base/untrusted_text.h"
#include "core/accelerator_lazy.h"
#include "core/communication.h"
#include "core/registry.h"

namespace anyaccel {

Accelerator::Accelerator(std::shared_ptr<sdk::Backend> backend)
    : backend_(std::move(backend)), lazy_(std::make_unique<Lazy>()) {
  if (!backend_)
    throw Error(ErrorCode::invalid_argument, "Accelerator", {.what = "the backend is null"});
  lazy_->compile_backend = backend_->traits().compile_backend;
}

Accelerator::~Accelerator() = default;

const std::string& Accelerator::name() const noexcept { return backend_->traits().name; }
c10::DeviceType Accelerator::device_type() const noexcept { return backend_->device_type(); }
bool Accelerator::is_synchronized_device() const noexcept {
  return backend_->traits().synchronized;
}
bool Accelerator::use_host_timers() const noexcept { return backend_->traits().use_host_timers; }
bool Accelerator::resolves_data_dependency() const noexcept {
  return backend_->traits().resolves_data_dependency;
}
bool Accelerator::handles_memory_backpressure() const noexcept {
  return backend_->traits().handles_memory_backpressure;
}
bool Accelerator::supports_nvtx_domain() const noexcept {
  return backend_->traits().supports_nvtx_domain;
}
std::string Accelerator::communication_backend_name() const {
  return communication_choice(backend_->traits()).name;
}
std::string Accelerator::op_builder_dir() const { return backend_->traits().op_builder_dir; }
std::vector<std::string> Accelerator::export_envs() const { return backend_->traits().export_envs; }
std::vector<std::string> Accelerator::visible_devices_envs() const {
  return backend_->traits().visible_devices_envs;
}

void Accelerator::set_visible_devices_envs(
    std::map<std::string, std::string>& current_env,
    const std::vector<std::string>& local_accelerator_ids) const {
  std::string ids;
  for (const auto& id : local_accelerator_ids) ids.append(ids.empty() ? "" : ",").append(id);
  for (const auto& variable : backend_->traits().visible_devices_envs) current_env[variable] = ids;
}

std::string Accelerator::get_compile_backend() const {
  const std::lock_guard lock(lazy_->mutex);
  return lazy_->compile_backend;
}

void Accelerator::set_compile_backend(const std::string& backend) {
  const auto& traits = backend_->traits();
  auto known = traits.compile_backends;
  if (std::find(known.begin(), known.end(), traits.compile_backend) == known.end())
    known.push_back(traits.compile_backend);
  if (std::find(known.begin(), known.end(), backend) == known.end())
    throw Error(ErrorCode::invalid_argument, "set_compile_backend",
                {.what = "the accelerator '" + name() + "' does not support this compile backend",
                 .got = quoted_text(backend),
                 .want = "one of " + joined(known)});
  const std::lock_guard lock(lazy_->mutex);
  lazy_->compile_backend = backend;
}

void Accelerator::range_push(std::string_view message, std::string_view domain,
                             std::string_view category) {
  if (!supports_nvtx_domain()) domain = category = {};
  backend_->range_push(std::string(message), std::string(domain), std::string(category));
}

void Accelerator::range_pop(std::string_view domain) {
  if (!supports_nvtx_domain()) domain = {};
  backend_->range_pop(std::string(domain));
}

void Accelerator::lazy_call(std::function<void()> callback) {
  if (!callback)
    throw Error(ErrorCode::invalid_argument, "lazy_call", {.what = "the callback is empty"});
  {
    // Queue the callback even if the device is initialized, so that it is not lost if an earlier
    // callback throws.
    const std::lock_guard lock(lazy_->mutex);
    lazy_->callbacks.push_back(std::move(callback));
    lazy_->pending.store(true, std::memory_order_release);
  }
  run_lazy_calls();
}

void Accelerator::run_lazy_calls() const {
  if (!lazy_->pending.load(std::memory_order_acquire) || !backend_->is_initialized()) return;
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(lazy_->mutex);
    callbacks.swap(lazy_->callbacks);
    lazy_->pending.store(false, std::memory_order_release);
  }
  std::exception_ptr first;
  for (const auto& callback : callbacks) {
    try {
      callback();
    } catch (const std::exception& error) {
      if (first)
        log(LogLevel::warning, std::string("another lazy_call() callback failed: ") + error.what());
      if (!first) first = std::current_exception();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

std::shared_ptr<sdk::OpBuilder> Accelerator::create_op_builder(
    const std::string& class_name) const {
  if (auto builder = backend_->create_op_builder(class_name)) return builder;
  return std::make_shared<sdk::NotImplementedBuilder>(class_name, name());
}

sdk::OpBuilderFactory Accelerator::get_op_builder(const std::string& class_name) const {
  return [backend = backend_, class_name]() -> std::shared_ptr<sdk::OpBuilder> {
    if (auto builder = backend->create_op_builder(class_name)) return builder;
    return std::make_shared<sdk::NotImplementedBuilder>(class_name, backend->traits().name);
  };
}

}  // namespace anyaccel

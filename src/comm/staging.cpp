#include "comm/staging.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "anyaccel/error.h"

namespace anyaccel::comm {

std::optional<Stream> Channels::side_stream(Accelerator& accelerator, DeviceIndex index) {
  const std::lock_guard lock(mutex_);
  if (const auto found = streams_.find(index); found != streams_.end()) return found->second;
  std::optional<Stream> stream;
  try {
    if (!accelerator.is_synchronized_device()) {
      stream = accelerator.Stream(index);
      accelerator.Event(false, index);
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    stream.reset();
  }
  return streams_[index] = stream;
}

void Channels::keep(const Event& done, std::vector<at::Tensor> tensors) {
  const std::lock_guard lock(mutex_);
  std::erase_if(kept_, [](const Kept& kept) { return kept.done.query(); });
  kept_.push_back({done, std::move(tensors)});
}

Channels::~Channels() {
  for (const auto& kept : kept_) {
    try {
      kept.done.synchronize();
    } catch (...) {  // a lost device no longer reads the memory
    }
  }
}

Staging::Staging(const char* where, std::shared_ptr<Channels> channels)
    : where_(where), accelerator_(get_accelerator()), channels_(std::move(channels)) {}

at::Tensor alias_of(const at::Tensor& tensor) {
  const auto* const impl = tensor.unsafeGetTensorImpl();
  return at::Tensor(impl->shallow_copy_and_detach(impl->version_counter(),
                                                  /*allow_tensor_metadata_change=*/true));
}

at::Tensor Staging::add(const at::Tensor& given, Use use) {
  const auto kind = given.device().type();
  if (given.layout() != c10::kStrided)
    throw Error(ErrorCode::invalid_argument, where_,
                {.what = "the tensor is not dense",
                 .got = c10::str(given.layout()),
                 .want = "a strided tensor"});
  const auto tensor = alias_of(given);
  if (kind == c10::kCPU) {
    const bool direct = tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
    pairs_.push_back(
        {tensor, direct ? tensor : at::empty(tensor.sizes(), tensor.options()), use, -1});
    return pairs_.back().host;
  }
  if (kind != accelerator_.device_type())
    throw Error(ErrorCode::invalid_argument, where_,
                {.what = "the tensor is on an unsupported device",
                 .got = tensor.device().str(),
                 .want = accelerator_.device_name() + " or the host"});
  const auto index =
      tensor.device().has_index() ? tensor.device().index() : accelerator_.current_device();
  const auto like = at::empty({0}, at::TensorOptions().dtype(tensor.scalar_type()));
  pairs_.push_back({tensor, accelerator_.pin_empty(like, tensor.sizes()), use, index});
  if (!devices_.contains(index))
    devices_[index].stream = channels_->side_stream(accelerator_, index);
  return pairs_.back().host;
}

at::Tensor Staging::add_bytes(const at::Tensor& tensor, Use use) {
  return add(tensor, use).view({-1}).view(at::kByte);
}

/// Runs copies on the device's side stream. If there is none, runs them on the current stream and
/// synchronizes.
void Staging::copy_in_stream(const Device& device, DeviceIndex index,
                             const std::function<void()>& copies) {
  // Writing received data must not be recorded by autograd or change the tensor's version.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  if (device.stream) {
    const StreamGuard guard(accelerator_, *device.stream);
    copies();
  } else {
    const DeviceGuard guard(accelerator_, index);
    copies();
    accelerator_.synchronize(index);
  }
}

void Staging::start() {
  for (const auto& pair : pairs_)
    if (pair.device < 0 && pair.use != Use::write && !pair.host.is_same(pair.tensor)) {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      pair.host.copy_(pair.tensor);
    }
  for (auto& [number, device] : devices_) {
    const auto index = number;
    if (device.stream) {
      auto now = accelerator_.Event(false, index);
      now.record(accelerator_.current_stream(index));
      now.wait(*device.stream);
      device.read = accelerator_.Event(false, index);
    }
    copy_in_stream(device, index, [&, index] {
      for (const auto& pair : pairs_) {
        if (pair.device != index) continue;
        if (pair.use != Use::write) pair.host.copy_(pair.tensor, /*non_blocking=*/true);
        // The caller may release the tensor before the side stream has finished using it.
        if (device.stream) pair.tensor.record_stream(device.stream->unwrap());
      }
    });
    if (device.read) device.read->record(*device.stream);
  }
}

void Staging::wait_until_read() {
  for (const auto& [index, device] : devices_)
    if (device.read) device.read->synchronize();
}

std::vector<std::pair<DeviceIndex, Event>> Staging::finish() {
  std::vector<std::pair<DeviceIndex, Event>> events;
  for (const auto& pair : pairs_)
    if (pair.device < 0 && pair.use != Use::read && !pair.host.is_same(pair.tensor)) {
      const at::AutoDispatchBelowADInplaceOrView below_autograd;
      pair.tensor.copy_(pair.host);
    }
  for (const auto& [number, device] : devices_) {
    const auto index = number;
    std::vector<at::Tensor> sources;
    copy_in_stream(device, index, [&, index] {
      for (const auto& pair : pairs_) {
        if (pair.device != index || pair.use == Use::read) continue;
        pair.tensor.copy_(pair.host, /*non_blocking=*/true);
        sources.push_back(pair.host);
      }
    });
    if (!device.stream) continue;
    events.emplace_back(index, accelerator_.Event(false, index));
    events.back().second.record(*device.stream);
    channels_->keep(events.back().second, std::move(sources));
  }
  return events;
}

std::vector<std::unique_ptr<StreamGuard>> Staging::use_streams() const {
  std::vector<std::unique_ptr<StreamGuard>> guards;
  for (const auto& [index, device] : devices_)
    if (device.stream)
      guards.push_back(std::make_unique<StreamGuard>(accelerator_, *device.stream));
  return guards;
}

std::vector<c10::Device> Staging::devices() const {
  std::vector<c10::Device> found;
  for (const auto& [index, device] : devices_)
    found.emplace_back(accelerator_.device_type(), static_cast<c10::DeviceIndex>(index));
  return found;
}

}  // namespace anyaccel::comm

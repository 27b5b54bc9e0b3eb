// Groups and backends by name. The only source that sees gloo.
// A CPU build of LibTorch has gloo; its headers do not say so.
#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "anyaccel/accelerator.h"
#include "anyaccel/comm.h"
#include "comm/dispatch.h"
#include "comm/staged.h"

namespace anyaccel::comm {

namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, BackendFactory> factories;
};

Registry& registry() {
  static auto* instance = new Registry;  // never destroyed: groups may outlive static destruction
  return *instance;
}

/// Connects to the other ranks over the interface of GLOO_SOCKET_IFNAME, or the host's name.
c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                            std::chrono::milliseconds timeout) {
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size,
                                                     c10d::ProcessGroupGloo::Options::create_default(timeout));
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_staged_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const GroupOptions& options) {
  if (!store || options.size < 1 || options.rank < 0 || options.rank >= options.size)
    throw Error(ErrorCode::invalid_argument, "make_staged_backend",
                {.what = "a group needs a store, a size of at least 1 and a rank in it",
                 .got = "rank " + std::to_string(options.rank) + " of " + std::to_string(options.size)});
  auto host = make_gloo(store, options.rank, options.size, options.timeout);
  return c10::make_intrusive<StagedBackend>(std::move(host), options);
}

void register_backend(const std::string& name, BackendFactory factory) {
  if (name.empty() || !factory)
    throw Error(ErrorCode::invalid_argument, "register_backend", {.what = "a backend needs a name and a factory"});
  auto& state = registry();
  const std::lock_guard lock(state.mutex);
  state.factories[name] = std::move(factory);
}

std::vector<std::string> backend_names() {
  std::set<std::string> names{kStaged, get_accelerator().communication_backend_name()};
  auto& state = registry();
  const std::lock_guard lock(state.mutex);
  for (const auto& [name, factory] : state.factories) names.insert(name);
  return {names.begin(), names.end()};
}

c10::intrusive_ptr<c10d::Backend> make_backend(const std::string& name, const c10::intrusive_ptr<c10d::Store>& store,
                                               const GroupOptions& options) {
  BackendFactory factory;
  {
    auto& state = registry();
    const std::lock_guard lock(state.mutex);
    if (const auto found = state.factories.find(name); found != state.factories.end()) factory = found->second;
  }
  if (factory) return factory(store, options);
  const auto names = backend_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    std::string known;
    for (const auto& one : names) known.append(known.empty() ? "" : ", ").append(one);
    throw Error(ErrorCode::invalid_argument, "make_backend",
                {.what = "there is no communication backend of this name", .got = "'" + name + "'", .want = known});
  }
  return make_staged_backend(store, options);
}

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(const std::string& name,
                                                          const c10::intrusive_ptr<c10d::Store>& store,
                                                          const GroupOptions& options) {
  auto& accelerator = get_accelerator();
  const auto backend = make_backend(name.empty() ? accelerator.communication_backend_name() : name, store, options);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, options.rank, options.size);
  constexpr auto kType = c10d::ProcessGroup::BackendType::CUSTOM;
  group->setDefaultBackend(kType);
  group->setBackend(c10::kCPU, kType, backend);
  if (accelerator.device_type() != c10::kCPU) {
    group->setBackend(accelerator.device_type(), kType, backend);
    register_operators(accelerator.device_type());
  }
  return group;
}

}  // namespace anyaccel::comm

// Creates groups and backends by name. This is the only source that includes gloo. CPU builds of
// LibTorch contain gloo, but their headers do not define USE_C10D_GLOO.
#ifndef USE_C10D_GLOO
#define USE_C10D_GLOO
#endif
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <csignal>
#include <map>
#include <mutex>
#include <set>

#include "anyaccel/accelerator.h"
#include "anyaccel/comm.h"
#include "base/log.h"
#include "base/untrusted_text.h"
#include "comm/backend_agreement.h"
#include "comm/ccl_host.h"
#include "comm/ddp_timer.h"
#include "comm/dispatch.h"
#include "comm/groups.h"
#include "comm/shm_backend.h"
#include "comm/staged.h"

namespace anyaccel::comm {

namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, BackendFactory> factories;
};

Registry& registry() {
  static auto* instance =
      new Registry;  // never destroyed, because groups may outlive static destruction
  return *instance;
}

/// Connects to the other ranks over the network interface named by GLOO_SOCKET_IFNAME or, if unset,
/// the one with the address that the host name resolves to.
c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store, int rank,
                                            int size, std::chrono::milliseconds timeout) {
  survive_closed_connections();
  return c10::make_intrusive<c10d::ProcessGroupGloo>(
      store, rank, size, c10d::ProcessGroupGloo::Options::create_default(timeout));
}

void check(const char* where, const c10::intrusive_ptr<c10d::Store>& store,
           const GroupOptions& options) {
  if (!store || options.size < 1 || options.rank < 0 || options.rank >= options.size)
    throw Error(
        ErrorCode::invalid_argument, where,
        {.what = "a group requires a store, a size of at least 1 and a rank below the size",
         .got = "rank " + std::to_string(options.rank) + " of " + std::to_string(options.size)});
}

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_staged_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const GroupOptions& options) {
  check("make_staged_backend", store, options);
  auto host = make_gloo(store, options.rank, options.size, options.timeout);
  return c10::make_intrusive<StagedBackend>(std::move(host), options);
}

c10::intrusive_ptr<c10d::Backend> make_shm_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                   const GroupOptions& options) {
  check("make_shm_backend", store, options);
  const auto warn = [&](const std::string& reason) {
    if (options.rank == 0) log(LogLevel::warning, "the shm backend falls back to gloo: " + reason);
  };
  // gloo connects now and not when it is first used, because a send or receive involves only some
  // ranks, and gloo needs all of them to connect.
  auto gloo = make_gloo(c10::make_intrusive<c10d::PrefixStore>("gloo", store), options.rank,
                        options.size, options.timeout);
  const auto obstacle =
      first_obstacle(*store, options.rank, options.size, shared_memory_obstacle());
  if (!obstacle.empty()) {
    warn(obstacle);
    return c10::make_intrusive<StagedBackend>(std::move(gloo), options, kShm);
  }
  // The op exchanges data through a process group when it sets up shared memory, and for all
  // collectives if the ranks cannot share memory.
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, options.rank, options.size);
  constexpr auto kType = c10d::ProcessGroup::BackendType::GLOO;
  group->setDefaultBackend(kType);
  group->setBackend(c10::kCPU, kType, gloo);
  auto memory = std::make_shared<ops::ShareMemComm>(group, options.timeout);
  if (!memory->reason().empty()) warn(memory->reason());
  return c10::make_intrusive<ShmBackend>(std::move(memory), std::move(gloo), options);
}

void register_backend(const std::string& name, BackendFactory factory) {
  if (name.empty() || !factory)
    throw Error(ErrorCode::invalid_argument, "register_backend",
                {.what = "a backend requires a name and a factory"});
  auto& state = registry();
  const std::lock_guard lock(state.mutex);
  state.factories[name] = std::move(factory);
}

void survive_closed_connections() {
  struct sigaction now {};
  if (::sigaction(SIGPIPE, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
      now.sa_handler == SIG_DFL)
    std::signal(SIGPIPE, SIG_IGN);
}

bool is_registered(const std::string& name) {
  auto& state = registry();
  const std::lock_guard lock(state.mutex);
  return state.factories.contains(name);
}

std::vector<std::string> backend_names() {
  std::set<std::string> names{kStaged, kShm, get_accelerator().communication_backend_name()};
  if (get_accelerator().device_type() == c10::kCPU) names.insert({kCcl, kGloo});
  auto& state = registry();
  const std::lock_guard lock(state.mutex);
  for (const auto& [name, factory] : state.factories) names.insert(name);
  return {names.begin(), names.end()};
}

c10::intrusive_ptr<c10d::Backend> make_backend(const std::string& name,
                                               const c10::intrusive_ptr<c10d::Store>& store,
                                               const GroupOptions& options) {
  register_ddp_timer(get_accelerator().device_type());
  BackendFactory factory;
  {
    auto& state = registry();
    const std::lock_guard lock(state.mutex);
    if (const auto found = state.factories.find(name); found != state.factories.end())
      factory = found->second;
  }
  if (factory) return factory(store, options);
  if (name == kShm) return make_shm_backend(store, options);
  // Use oneCCL only on the CPU: accelerators with their own memory need the vendor's oneCCL or
  // staging.
  if (name == kCcl && get_accelerator().device_type() == c10::kCPU) {
    auto gloo = make_gloo(c10::make_intrusive<c10d::PrefixStore>("gloo", store), options.rank,
                          options.size, options.timeout);
    return c10::make_intrusive<StagedBackend>(make_ccl_host(store, std::move(gloo), options),
                                              options, kCcl);
  }
  const auto names = backend_names();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    std::string known;
    for (const auto& one : names) known.append(known.empty() ? "" : ", ").append(one);
    throw Error(ErrorCode::invalid_argument, "make_backend",
                {.what = "unknown communication backend", .got = quoted_text(name), .want = known});
  }
  return make_staged_backend(store, options);
}

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const std::string& name, const c10::intrusive_ptr<c10d::Store>& store,
    const GroupOptions& options) {
  auto& accelerator = get_accelerator();
  const auto wanted = name.empty() ? accelerator.communication_backend_name() : name;
  const auto backend = make_backend(wanted, store, options);
  const bool host_too = accelerator.device_type() == c10::kCPU || !is_registered(wanted);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, options.rank, options.size);
  constexpr auto kType = c10d::ProcessGroup::BackendType::CUSTOM;
  group->setDefaultBackend(kType);
  if (host_too) {
    group->setBackend(c10::kCPU, kType, backend);
  } else {
    // Register this backend as GLOO, because c10d ignores a second backend of the same type.
    group->setBackend(
        c10::kCPU, c10d::ProcessGroup::BackendType::GLOO,
        make_staged_backend(c10::make_intrusive<c10d::PrefixStore>("host", store), options));
  }
  if (accelerator.device_type() != c10::kCPU) {
    group->setBackend(accelerator.device_type(), kType, backend);
    register_operators(accelerator.device_type());
  }
  return group;
}

}  // namespace anyaccel::comm

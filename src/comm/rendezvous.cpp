// Rendezvous for the ranks of a job.
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <limits>
#include <numeric>

#include "anyaccel/accelerator.h"
#include "anyaccel/error.h"
#include "base/env.h"
#include "comm/backend_agreement.h"
#include "comm/groups.h"
#include "comm/process_group.h"

namespace anyaccel::comm {

namespace {

constexpr const char* kWhere = "init_process_group";

int number(const std::optional<int>& given, const char* variable, long least,
           std::optional<int> otherwise) {
  if (given) return *given;
  if (const auto value = env_int(variable, least, std::numeric_limits<int>::max()))
    return static_cast<int>(*value);
  if (otherwise) return *otherwise;
  throw Error(ErrorCode::invalid_argument, kWhere,
              {.what = std::string(variable) + " is neither set nor given in the options",
               .hint = "start the program with a launcher (torchrun, deepspeed), or pass rank, "
                       "world_size and store"});
}

/// Uses the same keys as torch under torchrun, so that each restart is a separate job.
c10::intrusive_ptr<c10d::Store> store_at_master(int rank, int size,
                                                std::chrono::milliseconds timeout) {
  const auto address = env("MASTER_ADDR");
  const auto port = env_int("MASTER_PORT", 1, 65535);
  if (size == 1 && (!address || !port)) return c10::make_intrusive<c10d::HashStore>();
  if (!address || !port)
    throw Error(ErrorCode::invalid_argument, kWhere,
                {.what = std::string(address ? "MASTER_PORT" : "MASTER_ADDR") + " is not set",
                 .hint = "start the program with a launcher, or pass a store in the options"});
  const bool agent = env("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  survive_closed_connections();
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(*port);
  options.isServer = rank == 0 && !agent;
  options.numWorkers = static_cast<std::size_t>(size);
  options.timeout = timeout;
  options.multiTenant = true;
  try {
    c10::intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::TCPStore>(*address, options);
    if (agent)
      store = c10::make_intrusive<c10d::PrefixStore>(
          "/worker/attempt_" + env("TORCHELASTIC_RESTART_COUNT").value_or("0"), store);
    return store;
  } catch (...) {
    rethrow_as_error(kWhere);
  }
}

/// Selects the device by LOCAL_RANK. Otherwise, all ranks of a program that does not select a
/// device would use device 0.
void choose_device() {
  auto& accelerator = get_accelerator();
  const auto local_rank = env_int("LOCAL_RANK", 0, std::numeric_limits<int>::max());
  if (local_rank && *local_rank < accelerator.device_count())
    accelerator.set_device(static_cast<DeviceIndex>(*local_rank));
}

}  // namespace

ProcessGroup init_process_group(const InitOptions& options) {
  // Launchers set either both WORLD_SIZE and RANK or neither of them.
  const bool alone = !options.world_size && !options.rank && !env("WORLD_SIZE") && !env("RANK");
  const int size =
      number(options.world_size, "WORLD_SIZE", 1, alone ? std::optional(1) : std::nullopt);
  const int rank = number(options.rank, "RANK", 0, alone ? std::optional(0) : std::nullopt);
  if (size < 1 || rank < 0 || rank >= size)
    throw Error(ErrorCode::invalid_argument, kWhere,
                {.what = "the rank or the number of ranks is out of range",
                 .got = "rank " + std::to_string(rank) + " of " + std::to_string(size)});
  choose_device();
  auto store = options.store ? options.store : store_at_master(rank, size, options.timeout);
  store->setTimeout(options.timeout);
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  store = c10::make_intrusive<c10d::PrefixStore>("anyaccel", std::move(store));
  const bool automatic = options.backend.empty();
  BackendPreference preference{
      automatic ? get_accelerator().communication_backend_name() : options.backend, automatic};
  std::string backend;
  try {
    backend = agree_on_backend(*store, rank, size, preference);
  } catch (...) {
    rethrow_as_error(kWhere);
  }
  return ProcessGroup(
      std::make_unique<ProcessGroup::Impl>(std::move(store),
                                           GroupSettings{.backend = std::move(backend),
                                                         .timeout = options.timeout,
                                                         .shared_memory = options.shared_memory},
                                           std::move(ranks), rank));
}

}  // namespace anyaccel::comm

#include "communicator.h"

#include <ATen/ops/empty.h>
#include <link.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

namespace anyaccel::ops::ccl_comm {

namespace {

using Address = ::ccl::kvs::address_type;

struct State {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Comm>> comms;
  std::map<std::string, ::ccl::shared_ptr_class<::ccl::kvs>> offered;  // by address: this process's own
};

State& state() {
  static auto* instance = new State;  // never destroyed: oneCCL's own threads end with the process
  return *instance;
}

/// Where the libccl lies that this process has open: libfabric looks for its providers beside it only when told.
std::string library_folder() {
  std::string out;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        const std::string path = info->dlpi_name;
        const auto slash = path.rfind('/');
        if (slash == std::string::npos || path.compare(slash + 1, 9, "libccl.so") != 0) return 0;
        *static_cast<std::string*>(result) = path.substr(0, slash);
        return 1;
      },
      &out);
  return out;
}

/// Without a launcher of MPI's, oneCCL is told to need none; what the user has set stands.
void start() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (std::getenv("PMI_RANK") == nullptr && std::getenv("PMIX_RANK") == nullptr) {
      ::setenv("CCL_ATL_TRANSPORT", "ofi", 0);
      ::setenv("CCL_PROCESS_LAUNCHER", "none", 0);
      ::setenv("FI_PROVIDER", "tcp", 0);
      if (const auto folder = library_folder(); !folder.empty()) ::setenv("FI_PROVIDER_PATH", folder.c_str(), 0);
    }
    ::ccl::init();
  });
}

}  // namespace

at::Tensor offer_address() {
  return calling("ccl_comm_address", [] {
    start();
    auto kvs = ::ccl::create_main_kvs();
    const auto address = kvs->get_address();
    auto tensor = at::empty({static_cast<std::int64_t>(address.size())}, at::kByte);
    std::memcpy(tensor.mutable_data_ptr(), address.data(), address.size());
    auto& all = state();
    const std::lock_guard lock(all.mutex);
    all.offered[std::string(address.begin(), address.end())] = kvs;
    return tensor;
  });
}

std::int64_t address_bytes() { return static_cast<std::int64_t>(Address().size()); }

void make_comm(const std::string& name, std::int64_t size, std::int64_t rank, const at::Tensor& address,
               double timeout) {
  Address bytes;
  if (address.scalar_type() != at::kByte || address.numel() != address_bytes() || !address.is_contiguous() ||
      !address.is_cpu() || size < 1 || rank < 0 || rank >= size || !(timeout > 0) || !std::isfinite(timeout))
    throw Error(
        ErrorCode::invalid_argument, "ccl_comm_init",
        {.what = "a group needs a rank below its size, an address of ccl_comm_address() and a timeout in seconds",
         .got = "rank " + std::to_string(rank) + " of " + std::to_string(size) + ", " +
                std::to_string(address.numel()) + " elements, " + std::to_string(timeout) + " s"});
  std::memcpy(bytes.data(), address.const_data_ptr(), bytes.size());
  const auto comm = std::make_shared<Comm>(static_cast<int>(rank), static_cast<int>(size), timeout);
  ::ccl::shared_ptr_class<::ccl::kvs> kvs;
  auto& all = state();
  {
    const std::lock_guard lock(all.mutex);
    if (all.comms.contains(name)) return;  // as DeepSpeed's: the second call does nothing
    if (const auto mine = all.offered.find(std::string(bytes.begin(), bytes.end())); mine != all.offered.end())
      kvs = mine->second;
  }
  calling("ccl_comm_init", [&] {
    start();
    if (!kvs) kvs = ::ccl::create_kvs(bytes);
    comm->start(kvs, ::ccl::create_communicator(comm->size, comm->rank, kvs));
  });
  const std::lock_guard lock(all.mutex);
  all.comms[name] = comm;
}

std::shared_ptr<Comm> find_comm(const std::string& name) {
  auto& all = state();
  const std::lock_guard lock(all.mutex);
  const auto found = all.comms.find(name);
  if (found == all.comms.end())
    throw Error(
        ErrorCode::invalid_state, "ccl_comm",
        {.what = "this group was not initialized", .got = "'" + name + "'", .hint = "call ccl_comm_init first"});
  return found->second;
}

void Comm::start(::ccl::shared_ptr_class<::ccl::kvs> kvs, ::ccl::communicator ccl) {
  kvs_ = std::move(kvs);
  ccl_ = std::make_unique<::ccl::communicator>(std::move(ccl));
  std::thread([self = shared_from_this()] { self->work(); }).detach();
}

void Comm::work() {
  for (;;) {
    std::packaged_task<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return task_.valid(); });
      task = std::move(task_);
    }
    task();
  }
}

void Comm::run(const char* where, std::function<::ccl::event(const ::ccl::communicator&)> post) {
  const std::lock_guard one(calling_);
  if (broken_)
    throw Error(ErrorCode::invalid_state, where,
                {.what = "an operation of this group did not end in time", .hint = "make a new group"});
  std::packaged_task<void()> task([self = shared_from_this(), post = std::move(post)] { post(*self->ccl_).wait(); });
  auto done = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    task_ = std::move(task);
  }
  changed_.notify_one();
  if (done.wait_for(timeout) == std::future_status::ready) return calling(where, [&] { done.get(); });
  broken_ = true;
  throw Error(ErrorCode::timeout, where,
              {.what = "another rank did not come within " + std::to_string(timeout.count()) + " s",
               .got = "rank " + std::to_string(rank) + " of " + std::to_string(size),
               .hint = "look at what the other ranks say; this group is of no more use"});
}

}  // namespace anyaccel::ops::ccl_comm

#include "comm/ccl/communicator.h"

#include <ATen/ops/empty.h>
#include <link.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <thread>
#include <utility>

namespace anyaccel::ops::ccl_comm {

namespace {

using Address = ::ccl::kvs::address_type;

/// Longest timeout whose deadline the clock's time_point can represent.
constexpr double kMaxSeconds = 1e9;
constexpr std::chrono::duration<double> kBetweenLooks(0.2);
constexpr std::chrono::duration<double> kGrace(2);

struct State {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Comm>> comms;
  std::map<std::string, ::ccl::shared_ptr_class<::ccl::kvs>>
      offered;  // key-value stores that this process serves, by address
};

State& state() {
  static auto* instance =
      new State;  // never destroyed, because oneCCL's own threads run until the process exits
  return *instance;
}

/// Returns the folder of the loaded libccl. libfabric finds its providers there only if
/// FI_PROVIDER_PATH names the folder.
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

/// True if this process, or an ancestor before fork(), has initialized oneCCL.
std::atomic<bool> started{false};

/// Initializes oneCCL with std::cout redirected to std::cerr. oneCCL warns on std::cout that
/// CCL_LOG_LEVEL is not the default, even if its value is "error". The redirection keeps the
/// warning out of the program's output, which another program may parse.
void init_with_redirected_output() {
  struct Redirection {
    std::streambuf* const before = std::cout.rdbuf(std::cerr.rdbuf());
    ~Redirection() { std::cout.rdbuf(before); }
  };
  const Redirection redirection;
  ::ccl::init();
}

/// Initializes oneCCL. The caller assigns the ranks, which find each other through oneCCL's
/// key-value store, so oneCCL must not use a launcher or MPI. This also holds under an MPI
/// launcher: with oneCCL's MPI, the launchers of MPICH and Intel MPI killed ranks when they exited,
/// and the launcher of Open MPI killed them immediately. Also turns off oneCCL's warnings. The
/// user's settings take precedence.
void start() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::setenv("CCL_LOG_LEVEL", "error", 0);
    ::setenv("CCL_ATL_TRANSPORT", "ofi", 0);
    ::setenv("CCL_PROCESS_LAUNCHER", "none", 0);
    ::setenv("FI_PROVIDER", "tcp", 0);
    if (const auto folder = library_folder(); !folder.empty())
      ::setenv("FI_PROVIDER_PATH", folder.c_str(), 0);
    init_with_redirected_output();
    started = true;
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

void make_comm(const std::string& name, std::int64_t size, std::int64_t rank,
               const at::Tensor& address, double timeout) {
  Address bytes;
  if (address.scalar_type() != at::kByte || address.numel() != address_bytes() ||
      !address.is_contiguous() || !address.is_cpu() || size < 1 || rank < 0 || rank >= size ||
      !(timeout > 0) || !std::isfinite(timeout))
    throw Error(ErrorCode::invalid_argument, "ccl_comm_init",
                {.what = "invalid group arguments",
                 .got = "rank " + std::to_string(rank) + " of " + std::to_string(size) +
                        ", an address with " + std::to_string(address.numel()) +
                        " elements and a timeout of " + std::to_string(timeout) + " s",
                 .want = "a rank below the group size, an address from ccl_comm_address() and a "
                         "timeout above 0"});
  std::memcpy(bytes.data(), address.const_data_ptr(), bytes.size());
  std::string address_text(bytes.begin(), bytes.end());
  const auto comm = std::make_shared<Comm>(static_cast<int>(rank), static_cast<int>(size), timeout,
                                           std::move(address_text));
  ::ccl::shared_ptr_class<::ccl::kvs> kvs;
  auto& all = state();
  {
    const std::lock_guard lock(all.mutex);
    // As in DeepSpeed, a second call with the same address does nothing. A different address starts
    // a new attempt, for example after a timeout.
    if (const auto found = all.comms.find(name);
        found != all.comms.end() && found->second->address == comm->address)
      return;
    if (const auto mine = all.offered.find(comm->address); mine != all.offered.end())
      kvs = mine->second;
  }
  calling("ccl_comm_init", [&] {
    start();
    if (!kvs) kvs = ::ccl::create_kvs(bytes);
    comm->start(kvs, ::ccl::create_communicator(comm->size, comm->rank, kvs));
  });
  close_comm(name);
  const std::lock_guard lock(all.mutex);
  all.comms[name] = comm;
}

void close_comm(const std::string& name) {
  auto& all = state();
  const std::lock_guard lock(all.mutex);
  const auto found = all.comms.find(name);
  if (found == all.comms.end()) return;
  found->second->stop();
  all.comms.erase(found);
}

std::shared_ptr<Comm> find_comm(const std::string& name) {
  auto& all = state();
  const std::lock_guard lock(all.mutex);
  const auto found = all.comms.find(name);
  if (found == all.comms.end())
    throw Error(ErrorCode::invalid_state, "ccl_comm",
                {.what = "the group '" + name + "' is not initialized",
                 .hint = "call ccl_comm_init first"});
  return found->second;
}

Comm::Comm(int rank_in_group, int size_of_group, double seconds, std::string address_of_group)
    : rank(rank_in_group),
      size(size_of_group),
      timeout(std::min(seconds, kMaxSeconds)),
      address(std::move(address_of_group)),
      process_(::getpid()) {}

void Comm::start(const ::ccl::shared_ptr_class<::ccl::kvs>& kvs, ::ccl::communicator ccl) {
  // Never destroy the communicator or the key-value store that it uses.
  new ::ccl::shared_ptr_class<::ccl::kvs>(kvs);
  ccl_ = new ::ccl::communicator(std::move(ccl));
  std::thread([self = shared_from_this()] { self->work(); }).detach();
}

Comm::~Comm() {
  for (const auto& one : watched_) ::close(one.fd);
}

void Comm::watch(c10::IntArrayRef ranks, c10::IntArrayRef processes) {
  const std::lock_guard one(calling_);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    // Use a pidfd instead of a PID, which the system may reuse for another process.
    const int descriptor =
        static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(processes[i]), 0));
    if (descriptor < 0 && errno == ESRCH)
      throw Error(ErrorCode::unavailable, "ccl_comm_watch",
                  {.what = "rank " + std::to_string(ranks[i]) + " has exited"});
    if (descriptor < 0) continue;  // the kernel lacks pidfd_open; only the timeout applies
    watched_.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
    watched_ranks_.push_back(ranks[i]);
  }
}

std::int64_t Comm::gone_rank() const {
  auto list = watched_;
  if (::poll(list.data(), list.size(), 0) <= 0) return -1;
  for (std::size_t i = 0; i < list.size(); ++i)
    if ((list[i].revents & POLLIN) != 0) return watched_ranks_[i];
  return -1;
}

void Comm::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_one();
}

void Comm::work() {
  for (;;) {
    std::packaged_task<void()> task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || task_.valid(); });
      if (!task_.valid()) return;
      task = std::move(task_);
    }
    task();
  }
}

void Comm::run(const char* where, std::function<::ccl::event(const ::ccl::communicator&)> post) {
  if (::getpid() != process_)
    throw Error(
        ErrorCode::invalid_state, where,
        {.what = "the group was created before fork()", .hint = "create a new group in the child"});
  const std::lock_guard one(calling_);
  if (broken_)
    throw Error(ErrorCode::invalid_state, where,
                {.what = "an earlier operation of this group failed",
                 .hint = "create a new group on all ranks, with a new address"});
  std::packaged_task<void()> task([ccl = ccl_, post = std::move(post)]() mutable {
    // Release the operation's tensors before the caller learns that the operation has completed.
    // The caller may then shut down Python, after which no other thread can release a Python
    // tensor.
    const auto operation = std::exchange(post, nullptr);
    operation(*ccl).wait();
  });
  auto done = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    task_ = std::move(task);
  }
  changed_.notify_one();
  const auto ended = [&](std::chrono::duration<double> within) {
    return done.wait_for(within) == std::future_status::ready;
  };
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::duration_cast<std::chrono::nanoseconds>(timeout);
  std::int64_t gone = -1;
  for (bool looking = true; looking;) {
    const std::chrono::duration<double> left = deadline - std::chrono::steady_clock::now();
    if (ended(watched_.empty() ? left : std::min(left, kBetweenLooks)))
      return calling(where, [&] { done.get(); });
    gone = gone_rank();
    looking = gone < 0 && std::chrono::steady_clock::now() < deadline;
  }
  // A rank that has finished its work may exit normally before the others finish.
  if (gone >= 0 && ended(kGrace)) return calling(where, [&] { done.get(); });
  if (gone >= 0) {
    broken_ = true;
    throw Error(
        ErrorCode::unavailable, where,
        {.what = "rank " + std::to_string(gone) + " of " + std::to_string(size) + " has exited",
         .hint = "see its output, and create a new group"});
  }
  broken_ = true;
  throw Error(ErrorCode::timeout, where,
              {.what = "another rank did not respond to rank " + std::to_string(rank) + " of " +
                       std::to_string(size) + " within " + std::to_string(timeout.count()) + " s",
               .hint = "see the output of the other ranks, and create a new group"});
}

}  // namespace anyaccel::ops::ccl_comm

/// Initializes oneCCL with one rank and runs an all-reduce. Returns null on success, otherwise the
/// reason. Call it in a child process that then exits, because it changes the environment. The
/// function has C linkage so that it can be looked up by name without loading this library's
/// operators.
extern "C" __attribute__((visibility("default"))) const char* anyaccel_ccl_comm_trial() noexcept {
  static std::string problem;
  if (anyaccel::ops::ccl_comm::started) return nullptr;  // oneCCL is in use, so it works
  try {
    // A rank started by an MPI launcher must not register with the launcher a second time.
    for (const char* name :
         {"PMI_RANK", "PMI_SIZE", "PMI_FD", "PMIX_RANK", "CCL_LOCAL_RANK", "CCL_LOCAL_SIZE"})
      ::unsetenv(name);
    anyaccel::ops::ccl_comm::start();
    // Never destroy the key-value store, because the trial does not cover destruction.
    auto* kvs = new auto(::ccl::create_main_kvs());
    auto* comm = new auto(::ccl::create_communicator(1, 0, *kvs));
    float number = 3;
    ::ccl::allreduce(&number, &number, 1, ::ccl::datatype::float32, ::ccl::reduction::sum, *comm)
        .wait();
    if (number != 3) problem = "its all-reduce on a single rank returned a wrong sum";
  } catch (const std::exception& error) {
    problem = error.what();
  } catch (...) {
    problem = "it threw something that is not a std::exception";
  }
  // Do not unload or shut down the library: the caller exits with _exit().
  return problem.empty() ? nullptr : problem.c_str();
}

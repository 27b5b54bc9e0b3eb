#include "ops/cpu_adam/zenflow.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "ops/shared/check.h"

#if defined(__linux__)
#include <semaphore.h>

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <sstream>

#include "ops/cpu_adam/pinned_pool.h"
#endif

namespace anyaccel::ops {

#if defined(__linux__)
namespace {

constexpr std::int64_t max_groups = 1024;
// Marks blocks that zenflow_control_init() has initialized.
constexpr std::uint64_t control_magic = 0x616e796163636c31;

enum class Command { step, exit };

struct GroupNumbers {
  double lr, beta1, beta2, eps, weight_decay;
  bool bias_correction;
};

/// Control block in memory that both processes map. The semaphores `ready` and `done` order all
/// other accesses.
struct Control {
  std::uint64_t magic;
  pid_t trainer;
  std::uint64_t trainer_start;  ///< detects reuse of the trainer's PID
  std::atomic<bool> asked;  ///< a submitted step has not been waited for; used only by the trainer
  sem_t ready;
  sem_t done;
  Command command;
  int now_state;
  std::int64_t step;
  std::int64_t groups;
  GroupNumbers numbers[max_groups];
};

/// Returns the start time of a process in clock ticks since boot, or 0 if the process has exited.
std::uint64_t start_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  // The process name may contain any character, including parentheses. It is followed by the state
  // (field 3); the start time is field 22.
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string field;
  if (!(fields >> field) || field == "Z" || field == "X") return 0;
  for (int i = 4; i <= 22; ++i) fields >> field;
  return fields ? std::strtoull(field.c_str(), nullptr, 10) : 0;
}

/// Waits for the next step. Returns false if the trainer has exited.
bool next_step(Control& control) {
  for (;;) {
    timespec until{};
    clock_gettime(CLOCK_REALTIME, &until);  // sem_timedwait uses this clock
    until.tv_sec += 1;
    if (sem_timedwait(&control.ready, &until) == 0) return true;
    if (errno == ETIMEDOUT && start_of(control.trainer) != control.trainer_start) return false;
  }
}

Control* control_at(const char* where, std::int64_t address, bool initialised = true) {
  if (address == 0 || address % alignof(Control) != 0)
    fail_argument(where, "the address of the control block is invalid", std::to_string(address),
                  "the 8-byte-aligned address of a block of zenflow_adam_ctrl_size() bytes");
  auto* control = reinterpret_cast<Control*>(address);
  if (initialised && control->magic != control_magic)
    fail_argument(where, "the control block is not initialized", "an uninitialized block",
                  "a block from zenflow_adam_ctrl_init()");
  return control;
}

struct Optimizer {
  Optimizer(bool is_decoupled, const std::vector<std::int64_t>& affinity)
      : decoupled(is_decoupled), pool(affinity) {}
  bool decoupled;
  std::vector<ZenflowGroup> groups;
  PinnedPool pool;
};

struct Handles {
  std::mutex mutex;
  std::map<std::int64_t, std::shared_ptr<Optimizer>> optimizers;
  std::int64_t next = 0;
};

Handles& handles() {
  static auto* instance = new Handles;
  return *instance;
}

std::shared_ptr<Optimizer> find(const char* where, std::int64_t handle) {
  const std::lock_guard lock(handles().mutex);
  const auto place = handles().optimizers.find(handle);
  if (place == handles().optimizers.end())
    fail_argument(where, "unknown handle", std::to_string(handle),
                  "a handle from zenflow_adam_create()");
  return place->second;
}

void work(Optimizer& optimizer, const Control& control) {
  for (std::size_t i = 0; i < optimizer.groups.size(); ++i) {
    const ZenflowGroup& group = optimizer.groups[i];
    const GroupNumbers& arguments = control.numbers[i];
    const AdamConstants constants =
        adam_constants({arguments.lr, arguments.beta1, arguments.beta2, arguments.eps,
                        arguments.weight_decay, arguments.bias_correction, optimizer.decoupled},
                       control.step);
    const AdamArrays& arrays = group.arrays[control.now_state];
    const int bytes = size_of(arrays.param);
    optimizer.pool.run(group.size, [&](std::int64_t begin, std::int64_t end) {
      adam_update(best_isa(), constants, arrays, begin, end);
      if (group.stale)
        std::memcpy(static_cast<char*>(group.stale) + begin * bytes,
                    static_cast<char*>(arrays.params) + begin * bytes,
                    static_cast<std::size_t>((end - begin) * bytes));
    });
  }
}

}  // namespace

std::int64_t zenflow_create(bool decoupled, std::vector<std::int64_t> affinity) {
  auto optimizer = std::make_shared<Optimizer>(decoupled, affinity);
  const std::lock_guard lock(handles().mutex);
  handles().optimizers[handles().next] = std::move(optimizer);
  return handles().next++;
}

void zenflow_register(std::int64_t handle, ZenflowGroup group) {
  constexpr const char* where = "zenflow_adam_register_group";
  const auto optimizer = find(where, handle);
  if (static_cast<std::int64_t>(optimizer->groups.size()) == max_groups)
    fail_argument(where, "too many parameter groups", std::to_string(max_groups + 1),
                  "at most " + std::to_string(max_groups));
  optimizer->groups.push_back(std::move(group));
}

void zenflow_destroy(std::int64_t handle) {
  std::shared_ptr<Optimizer> last;
  const std::lock_guard lock(handles().mutex);
  const auto place = handles().optimizers.find(handle);
  if (place == handles().optimizers.end()) return;
  last = place->second;
  handles().optimizers.erase(place);
}

std::int64_t zenflow_control_size() { return sizeof(Control); }

void zenflow_control_init(std::int64_t address, std::int64_t groups) {
  constexpr const char* where = "zenflow_adam_ctrl_init";
  Control* control = control_at(where, address, false);
  if (groups < 0 || groups > max_groups)
    fail_argument(where, "the number of groups is out of range", std::to_string(groups),
                  "0 to " + std::to_string(max_groups));
  control->groups = groups;
  control->trainer = getpid();
  control->trainer_start = start_of(control->trainer);
  control->asked = false;
  control->command = Command::step;
  if (sem_init(&control->ready, 1, 0) != 0 || sem_init(&control->done, 1, 0) != 0)
    fail_argument(where, std::string("cannot create a semaphore: ") + std::strerror(errno),
                  "no semaphore", "a process-shared semaphore");
  control->magic = control_magic;
}

void zenflow_run_worker(std::int64_t handle, std::int64_t address) {
  constexpr const char* where = "zenflow_adam_run_worker";
  const auto optimizer = find(where, handle);
  Control* control = control_at(where, address);
  if (static_cast<std::int64_t>(optimizer->groups.size()) != control->groups)
    fail_argument(where, "the number of groups differs from that of the control block",
                  std::to_string(optimizer->groups.size()), std::to_string(control->groups),
                  "register each group first");
  while (next_step(*control)) {
    if (control->command == Command::exit) return;
    work(*optimizer, *control);
    sem_post(&control->done);
  }
  std::fprintf(stderr,
               "anyaccel: exiting ZenFlow's optimizer process, because its trainer (process %d) "
               "has exited\n",
               static_cast<int>(control->trainer));
}

void zenflow_submit(std::int64_t address, std::int64_t now_state, std::int64_t step,
                    const std::vector<AdamOptions>& options) {
  constexpr const char* where = "zenflow_adam_submit";
  Control* control = control_at(where, address);
  if (static_cast<std::int64_t>(options.size()) != control->groups)
    fail_argument(where, "the number of options differs from the number of groups",
                  std::to_string(options.size()), std::to_string(control->groups));
  if (now_state != 0 && now_state != 1)
    fail_argument(where, "now_state is out of range", std::to_string(now_state), "0 or 1");
  if (control->asked.exchange(true))
    fail_argument(where, "zenflow_adam_wait() has not returned true for the previous step",
                  "a second step", "one step at a time",
                  "call zenflow_adam_wait() until it returns true");
  for (std::size_t i = 0; i < options.size(); ++i) {
    const AdamOptions& o = options[i];
    control->numbers[i] = {o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.bias_correction};
  }
  control->now_state = static_cast<int>(now_state);
  control->step = step;
  control->command = Command::step;
  sem_post(&control->ready);
}

bool zenflow_wait(std::int64_t address, double timeout_s) {
  Control* control = control_at("zenflow_adam_wait", address);
  if (!(timeout_s >= 0)) timeout_s = 0;
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);  // sem_timedwait uses this clock
  const double seconds = std::floor(std::min(timeout_s, 1e9));
  until.tv_sec += static_cast<time_t>(seconds);
  until.tv_nsec += static_cast<long>((std::min(timeout_s, 1e9) - seconds) * 1e9);
  if (until.tv_nsec >= 1'000'000'000) {
    until.tv_sec += 1;
    until.tv_nsec -= 1'000'000'000;
  }
  while (sem_timedwait(&control->done, &until) != 0)
    if (errno != EINTR) return false;
  control->asked = false;
  return true;
}

void zenflow_control_exit(std::int64_t address) {
  Control* control = control_at("zenflow_adam_ctrl_exit", address);
  control->command = Command::exit;
  sem_post(&control->ready);
}

#else
namespace {
[[noreturn]] void not_here() {
  fail_argument("zenflow_adam", "ZenFlow requires process-shared semaphores",
                "an unsupported system", "Linux");
}
}  // namespace

std::int64_t zenflow_create(bool, std::vector<std::int64_t>) { not_here(); }
void zenflow_register(std::int64_t, ZenflowGroup) { not_here(); }
void zenflow_destroy(std::int64_t) {}
std::int64_t zenflow_control_size() { not_here(); }
void zenflow_control_init(std::int64_t, std::int64_t) { not_here(); }
void zenflow_run_worker(std::int64_t, std::int64_t) { not_here(); }
void zenflow_submit(std::int64_t, std::int64_t, std::int64_t, const std::vector<AdamOptions>&) {
  not_here();
}
bool zenflow_wait(std::int64_t, double) { not_here(); }
void zenflow_control_exit(std::int64_t) { not_here(); }
#endif

}  // namespace anyaccel::ops

// Sets up a group and chooses between shared memory and the backend. The operations are in
// operations.cpp.
#include "comm/process_group.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <future>

#include "anyaccel/accelerator.h"
#include "anyaccel/error.h"
#include "comm/backend_agreement.h"
#include "comm/groups.h"

namespace anyaccel::comm {

void rethrow_as_error(const char* where) {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    const std::string text = error.what();
    const auto line = text.substr(0, text.find('\n'));
    const bool late =
        text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
    throw Error(
        late ? ErrorCode::timeout : ErrorCode::unavailable, where,
        {.what = (late ? "other ranks did not respond in time: " : "communication failed: ") + line,
         .hint = "see the output of the other ranks"});
  }
}

ProcessGroup::Impl::Impl(c10::intrusive_ptr<c10d::Store> store, GroupSettings given,
                         std::vector<int> of_job, int place)
    : settings(std::move(given)),
      ranks(std::move(of_job)),
      rank(place),
      size(static_cast<int>(ranks.size())),
      store_(std::move(store)) {
  const bool own_ccl = settings.backend == kCcl && get_accelerator().device_type() == c10::kCPU;
  if (!is_registered(settings.backend) && settings.backend != kStaged && settings.backend != kShm &&
      !own_ccl)
    backend_reason =
        "no backend is registered as '" + settings.backend + "', so the staged backend is used";
  try {
    group = make_process_group(settings.backend,
                               c10::make_intrusive<c10d::PrefixStore>("backend", store_),
                               {.rank = rank, .size = size, .timeout = settings.timeout});
  } catch (...) {
    rethrow_as_error("init_process_group");
  }
}

/// Returns the reason why the group cannot use shared memory, or an empty string if it can. All
/// ranks get the same answer, because they must all use the same path.
std::string ProcessGroup::Impl::obstacle() {
  if (size == 1) return "the group has only one rank";
  const auto mine =
      settings.shared_memory ? shared_memory_obstacle() : "it is disabled in the options";
  return first_obstacle(*store_, rank, size, mine);
}

ops::ShareMemComm* ProcessGroup::Impl::memory() {
  const std::lock_guard lock(memory_mutex_);
  if (!memory_asked_) {
    try {
      memory_reason = obstacle();
      if (memory_reason.empty()) {
        auto made = std::make_unique<ops::ShareMemComm>(group, settings.timeout);
        memory_reason = made->reason();
        if (memory_reason.empty()) memory_ = std::move(made);
      }
    } catch (...) {
      rethrow_as_error("ProcessGroup");
    }
    memory_asked_ = true;
  }
  return memory_.get();
}

ops::ShareMemComm* ProcessGroup::Impl::memory_for(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.layout() == c10::kStrided ? memory_in_turn() : nullptr;
}

ops::ShareMemComm* ProcessGroup::Impl::memory_in_turn() {
  auto* const found = memory();
  std::shared_ptr<Work::State> last;
  {
    const std::lock_guard lock(executor_mutex_);
    last = last_queued_;
  }
  // Ignore the exception here: it is thrown to the caller that waits for that operation, and the
  // failed group also reports it for this call.
  if (last) try {
      last->wait();
    } catch (...) {
    }
  return found;
}

namespace {

/// A task on the group's thread. Several threads may wait for the same task.
class InMemory final : public Work::State {
 public:
  bool done() const override {
    return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  void wait() override { result_.get(); }
  void run(const std::function<void()>& call) {
    try {
      call();
      promise_.set_value();
    } catch (...) {
      promise_.set_exception(std::current_exception());
    }
  }

 private:
  std::promise<void> promise_;
  std::shared_future<void> result_ = promise_.get_future().share();
};

}  // namespace

std::shared_ptr<Work::State> ProcessGroup::Impl::begin_in_memory(const at::Tensor& tensor,
                                                                 std::function<void()> call) {
  auto state = std::make_shared<InMemory>();
  const std::lock_guard lock(executor_mutex_);
  if (::getpid() != process_)
    throw Error(ErrorCode::invalid_state, "all_reduce_async",
                {.what = "a forked child cannot use its parent's group"});
  if (!executor_) executor_ = std::make_unique<SerialExecutor>();
  executor_->post([state, tensor, call = std::move(call)] { state->run(call); });
  last_queued_ = state;
  return state;
}

/// In a forked child, the executor's thread does not exist and cannot be joined.
ProcessGroup::Impl::~Impl() {
  if (::getpid() != process_) static_cast<void>(executor_.release());
}

bool Work::done() const { return !state_ || state_->done(); }

void Work::wait() const {
  if (state_) state_->wait();
}

std::unique_ptr<ProcessGroup::Impl> ProcessGroup::Impl::part(std::vector<int> places) {
  std::sort(places.begin(), places.end());
  const auto fail = [&](const std::string& what) {
    throw Error(
        ErrorCode::invalid_argument, "ProcessGroup::new_group",
        {.what = what,
         .want = "distinct ranks from 0 to " + std::to_string(size - 1) + ", including this one"});
  };
  if (places.empty() || places.front() < 0 || places.back() >= size)
    fail("a rank is out of range, or there are no ranks");
  if (std::adjacent_find(places.begin(), places.end()) != places.end())
    fail("a rank appears twice");
  const auto mine = std::find(places.begin(), places.end(), rank);
  if (mine == places.end()) fail("rank " + std::to_string(rank) + " is not in the new group");
  std::string name;
  std::vector<int> of_job;
  for (const auto place : places) {
    name += (name.empty() ? "" : ",") + std::to_string(place);
    of_job.push_back(ranks[place]);
  }
  {
    // Count the groups of each set of ranks separately, so that a set's ranks agree on the number
    // even if other ranks create groups at the same time.
    const std::lock_guard lock(parts_mutex_);
    name += "#" + std::to_string(++parts_[name]);
  }
  return std::make_unique<Impl>(c10::make_intrusive<c10d::PrefixStore>("group " + name, store_),
                                settings, std::move(of_job),
                                static_cast<int>(mine - places.begin()));
}

void ProcessGroup::Impl::check_rank(const char* where, int other) const {
  if (other < 0 || other >= size)
    throw Error(ErrorCode::invalid_argument, where,
                {.what = "the rank is out of range",
                 .got = std::to_string(other),
                 .want = "0 to " + std::to_string(size - 1)});
}

ProcessGroup::ProcessGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ProcessGroup::ProcessGroup(ProcessGroup&& other) noexcept = default;
ProcessGroup& ProcessGroup::operator=(ProcessGroup&& other) noexcept = default;
ProcessGroup::~ProcessGroup() = default;

int ProcessGroup::rank() const noexcept { return impl_->rank; }
int ProcessGroup::size() const noexcept { return impl_->size; }
const std::vector<int>& ProcessGroup::ranks() const noexcept { return impl_->ranks; }
const std::string& ProcessGroup::backend_name() const noexcept { return impl_->settings.backend; }
const std::string& ProcessGroup::backend_reason() const noexcept { return impl_->backend_reason; }
const c10::intrusive_ptr<c10d::ProcessGroup>& ProcessGroup::c10d_group() const noexcept {
  return impl_->group;
}

const std::string& ProcessGroup::shared_memory_reason() {
  impl_->memory();
  return impl_->memory_reason;
}

std::string ProcessGroup::shared_memory_name() {
  const auto* const memory = impl_->memory_in_turn();
  return memory ? memory->name() : std::string();
}

ProcessGroup ProcessGroup::new_group(const std::vector<int>& ranks) {
  return ProcessGroup(impl_->part(ranks));
}

}  // namespace anyaccel::comm

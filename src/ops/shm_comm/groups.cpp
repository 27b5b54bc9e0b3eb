#include "groups.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "anyaccel/error.h"
#include "ops/shm_comm/process_group.h"

namespace anyaccel::ops::shm {

namespace {

using ProcessGroup = c10::intrusive_ptr_target;

constexpr std::int64_t kGathered = std::int64_t{1}
                                   << 20;  // bytes of a rank at once, where numbers are gathered to be reduced

struct Entry {
  std::shared_ptr<Group> group;
  c10::weak_intrusive_ptr<ProcessGroup> made_for;  // keeps the address from being used again
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, Entry> groups;
  std::string chosen;
};

Registry& registry() {
  static auto* instance = new Registry;  // never destroyed: the system tells the others when this process ends
  return *instance;
}

c10::intrusive_ptr<ProcessGroup> process_group(const std::string& name) {
  try {
    return c10d::resolve_process_group(name);
  } catch (const c10::Error&) {
    return {};
  }
}

/// The group when its process group is still the one of that name; forgets one that is not. The registry is locked.
std::shared_ptr<Group> current(Registry& state, const std::string& name) {
  const auto found = state.groups.find(name);
  if (found == state.groups.end()) return nullptr;
  if (found->second.made_for._unsafe_get_target() == process_group(name).get()) return found->second.group;
  state.groups.erase(found);
  return nullptr;
}

std::vector<std::string> exchange_texts(const Group& group, const std::string& mine) {
  constexpr std::int64_t kBytes = kMostText + 1;
  const auto text = at::empty({kBytes}, at::kByte).zero_();
  std::memcpy(text.mutable_data_ptr(), mine.c_str(), std::min<std::size_t>(mine.size(), kMostText));
  const auto all = gather_over_c10d(group, text);
  std::vector<std::string> texts;
  for (int rank = 0; rank < group.size; ++rank)
    texts.emplace_back(static_cast<const char*>(all.const_data_ptr()) + rank * kBytes);
  return texts;
}

/// Whether every backend of c10d for host memory reduces this, and as our kernels do.
bool is_plain(Kind kind, Reduce reduce) {
  switch (kind) {
    case Kind::f32:
    case Kind::f64:
      return reduce == Reduce::sum || reduce == Reduce::avg || reduce == Reduce::product;  // not NaN's way
    case Kind::i8:
    case Kind::u8:
    case Kind::i32:
    case Kind::i64: return true;
    default: return false;
  }
}

const char* c10d_name(Reduce reduce) {
  switch (reduce) {
    case Reduce::product: return "product";
    case Reduce::min: return "min";
    case Reduce::max: return "max";
    default: return "sum";  // not every backend has averages
  }
}

/// What no backend reduces as it should: everybody gets all numbers, piece by piece, and reduces them in the order of ranks.
void reduce_gathered(const Group& group, const at::Tensor& numbers, Kind kind, Reduce reduce) {
  const auto ranks = static_cast<std::size_t>(group.size);
  const auto most = kGathered / numbers.element_size();
  std::vector<const void*> sources(ranks);
  for (std::int64_t start = 0; start < numbers.numel(); start += most) {
    const auto piece = numbers.slice(0, start, std::min(start + most, numbers.numel()));
    const auto bytes = piece.nbytes();
    const auto all = gather_over_c10d(group, piece.view(at::kByte));
    for (std::size_t rank = 0; rank < ranks; ++rank)
      sources[rank] = static_cast<const char*>(all.const_data_ptr()) + rank * bytes;
    kernels().reduce(kind, reduce, piece.mutable_data_ptr(), sources.data(), group.size,
                     static_cast<std::size_t>(piece.numel()));
  }
}

}  // namespace

void reduce_over_c10d(const Group& group, const at::Tensor& numbers, Kind kind, Reduce reduce) {
  const bool half = kind == Kind::f16 || kind == Kind::bf16;
  if (half && (reduce == Reduce::sum || reduce == Reduce::avg)) {
    const auto wide = numbers.to(at::kFloat);
    reduce_over_c10d(group, wide, Kind::f32, reduce);
    numbers.copy_(wide);
    return;
  }
  if (!is_plain(kind, reduce)) return reduce_gathered(group, numbers, kind, reduce);
  apply_over_c10d(group, numbers, c10d_name(reduce));
  if (reduce == Reduce::avg) numbers.div_(group.size);
}

std::shared_ptr<Group> find_group(const std::string& name) {
  auto& state = registry();
  const std::lock_guard lock(state.mutex);
  if (auto group = current(state, name)) return group;
  throw Error(ErrorCode::invalid_state, "shm_comm",
              {.what = "this group was not initialized, or its process group was destroyed",
               .got = "'" + name + "'",
               .hint = "call initialize() on every rank first"});
}

bool has_group(const std::string& name) {
  auto& state = registry();
  const std::lock_guard lock(state.mutex);
  return current(state, name) != nullptr;
}

std::string init_group(const std::string& name, std::int64_t rank, std::int64_t size, double timeout_seconds) {
  constexpr const char* kWhere = "shm_comm_init";
  if (!(timeout_seconds > 0) || timeout_seconds > 1e9)
    throw Error(ErrorCode::invalid_argument, kWhere,
                {.what = "no such timeout", .got = std::to_string(timeout_seconds) + " s", .want = "0 to 1e9"});
  const auto timeout =
      std::chrono::milliseconds(std::max<std::int64_t>(static_cast<std::int64_t>(timeout_seconds * 1000), 1));
  auto& state = registry();
  std::shared_ptr<Group> there;
  {
    const std::lock_guard lock(state.mutex);
    there = current(state, name);
  }
  if (there) {
    if (there->rank != rank || there->size != size)
      throw Error(ErrorCode::invalid_state, kWhere,
                  {.what = "a group of this name is there with another rank or size",
                   .got = "'" + name + "'",
                   .hint = "call close() first"});
    const std::lock_guard lock(there->mutex);
    if (there->communicator && there->communicator->failed())
      throw Error(ErrorCode::invalid_state, kWhere,
                  {.what = "this group has failed before",
                   .got = "'" + name + "'",
                   .hint = "call close() on every rank, then initialize() again"});
    if (there->communicator) there->communicator->set_timeout(timeout);
    return there->reason;
  }
  auto group = std::make_shared<Group>();
  group->name = name;
  group->rank = static_cast<int>(rank);
  group->size = static_cast<int>(size);
  Options options{.rank = group->rank, .size = group->size, .timeout = timeout};
  auto connected = connect(options, [&](const std::string& mine) {
    return group->size == 1 ? std::vector<std::string>{mine} : exchange_texts(*group, mine);
  });
  group->communicator = std::move(connected.communicator);
  group->reason = connected.reason;
  const std::lock_guard lock(state.mutex);
  state.groups.insert_or_assign(name, Entry{group, c10::weak_intrusive_ptr<ProcessGroup>(process_group(name))});
  if (state.chosen.empty()) state.chosen = name;
  return group->reason;
}

void close_group(const std::string& name) {
  std::shared_ptr<Group> group;
  auto& state = registry();
  const std::lock_guard lock(state.mutex);
  if (const auto found = state.groups.find(name); found != state.groups.end()) {
    group = found->second.group;
    state.groups.erase(found);
  }
  if (state.chosen == name) state.chosen.clear();
}

std::string chosen_group() {
  auto& state = registry();
  const std::lock_guard lock(state.mutex);
  return state.chosen;
}

void choose_group(const std::string& name) {
  auto& state = registry();
  const std::lock_guard lock(state.mutex);
  state.chosen = name;
}

}  // namespace anyaccel::ops::shm

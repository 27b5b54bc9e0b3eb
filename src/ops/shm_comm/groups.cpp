#include "groups.h"

#include <c10/util/Exception.h>
#include <c10/util/intrusive_ptr.h>

#include <deque>
#include <map>
#include <vector>

#include "anyaccel/error.h"
#include "ops/shm_comm/process_group.h"

namespace anyaccel::ops::shm {

namespace {

using ProcessGroup = c10::intrusive_ptr_target;

struct Entry {
  std::shared_ptr<Group> group;
  c10::weak_intrusive_ptr<ProcessGroup> made_for;  // keeps the address from being reused
};

struct Registry {
  std::mutex mutex;
  std::map<std::string, Entry> groups;
  std::deque<GroupHandle> handles;  // handles of all groups that have ever had one
  std::string chosen;
};

Registry& registry() {
  // Never destroyed. The operating system notifies the other ranks when this process exits.
  static auto* instance = new Registry;
  return *instance;
}

c10::intrusive_ptr<ProcessGroup> process_group(const std::string& name) {
  try {
    return resolve_process_group(name);
  } catch (const c10::Error&) {
    return {};
  }
}

/// Returns the group if its process group is still registered under the name. Otherwise removes the
/// group from the registry, which must be locked.
std::shared_ptr<Group> current(Registry& state, const std::string& name) {
  const auto found = state.groups.find(name);
  if (found == state.groups.end()) return nullptr;
  if (found->second.made_for._unsafe_get_target() == process_group(name).get())
    return found->second.group;
  state.groups.erase(found);
  return nullptr;
}

std::vector<std::string> exchange_texts(const Group& group, const std::string& mine) {
  constexpr std::size_t kBytes = kMaxText + 1;
  std::string text = mine.substr(0, kMaxText);
  text.resize(kBytes);
  std::string all(kBytes * static_cast<std::size_t>(group.size), '\0');
  gather_bytes(group, text.data(), kBytes, all.data());
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size(); at += kBytes) texts.emplace_back(all.c_str() + at);
  return texts;
}

}  // namespace

std::shared_ptr<Group> find_group(const std::string& name) {
  auto& state = registry();
  const std::lock_guard lock(state.mutex);
  if (auto group = current(state, name)) return group;
  throw Error(ErrorCode::invalid_state, "shm_comm",
              {.what = "the group is not initialized, or its process group was destroyed",
               .got = "'" + name + "'",
               .hint = "call initialize() on every rank first"});
}

GroupHandle* find_handle(const std::string& name) {
  const auto group = find_group(name);
  auto& state = registry();
  const std::lock_guard lock(state.mutex);
  if (!group->handle) group->handle = &state.handles.emplace_back(GroupHandle{name, group});
  return group->handle;
}

std::shared_ptr<Group> group_of(const GroupHandle& handle) {
  if (auto group = handle.group.lock()) return group;
  throw Error(ErrorCode::invalid_state, "shm_comm",
              {.what = "the group was closed, or its process group was destroyed",
               .got = "'" + handle.name + "'"});
}

bool has_group(const std::string& name) {
  auto& state = registry();
  const std::lock_guard lock(state.mutex);
  return current(state, name) != nullptr;
}

std::string init_group(const std::string& name, std::int64_t rank, std::int64_t size,
                       double timeout_seconds) {
  constexpr const char* kWhere = "shm_comm_init";
  if (!(timeout_seconds > 0) || timeout_seconds > 1e9)
    throw Error(ErrorCode::invalid_argument, kWhere,
                {.what = "the timeout is out of range",
                 .got = std::to_string(timeout_seconds) + " s",
                 .want = "above 0 s and at most 1e9 s"});
  const auto timeout = std::chrono::milliseconds(
      std::max<std::int64_t>(static_cast<std::int64_t>(timeout_seconds * 1000), 1));
  auto& state = registry();
  std::shared_ptr<Group> there;
  {
    const std::lock_guard lock(state.mutex);
    there = current(state, name);
  }
  if (there) {
    if (there->rank != rank || there->size != size)
      throw Error(ErrorCode::invalid_state, kWhere,
                  {.what = "a group with this name exists with a different rank or size",
                   .got = "'" + name + "'",
                   .hint = "call close() first"});
    const std::lock_guard lock(there->mutex);
    if (there->communicator && there->communicator->failed())
      throw Error(ErrorCode::invalid_state, kWhere,
                  {.what = "the group has failed",
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
  state.groups.insert_or_assign(
      name, Entry{group, c10::weak_intrusive_ptr<ProcessGroup>(process_group(name))});
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

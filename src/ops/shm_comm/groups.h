// Groups by the name of their process group. Does not use tensors, because torch's headers for them
// take longer to compile than the rest of this op.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "comm/shm/communicator.h"

namespace anyaccel::ops::shm {

struct Group;

/// Where callers that use a group's address find the group. Never freed, so using a closed group is
/// an error.
struct GroupHandle {
  std::string name;
  std::weak_ptr<Group> group;
};

struct Group {
  std::string name;
  GroupHandle* handle = nullptr;  // created on demand
  int rank = 0;
  int size = 1;
  std::unique_ptr<Communicator> communicator;  // null: use c10d
  std::string reason;
  std::mutex mutex;  // serializes the group's operations
};

/// Throws `invalid_state` if there is no group of this name, or if its process group was destroyed
/// and the name may now belong to another one.
std::shared_ptr<Group> find_group(const std::string& name);
bool has_group(const std::string& name);
/// Returns the group's handle. Throws like find_group().
GroupHandle* find_handle(const std::string& name);
/// Throws `invalid_state` if the group was closed or destroyed.
std::shared_ptr<Group> group_of(const GroupHandle& handle);
/// Creates the group, or changes the timeout of an existing one. Returns why the group has no
/// shared memory, otherwise "". Throws `invalid_state` for a group that has failed, because this
/// rank cannot know whether the others have noticed.
std::string init_group(const std::string& name, std::int64_t rank, std::int64_t size,
                       double timeout_seconds);
void close_group(const std::string& name);

/// The group used by DeepSpeed's op names, whose calls do not name a group: the first group unless
/// choose_group() was called.
std::string chosen_group();
void choose_group(const std::string& name);

/// Gathers `bytes` bytes from every rank, in rank order, through the process group. Throws
/// `unavailable` on failure.
void gather_bytes(const Group& group, const void* mine, std::size_t bytes, void* all);

}  // namespace anyaccel::ops::shm

// Groups, identified by the name of their process group. Does not use tensors, because torch's
// headers for them take longer to compile than the rest of this op.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "comm/shm/communicator.h"

namespace anyaccel::ops::shm {

struct Group;

/// Object with a stable address, through which callers find a group. Handles are never freed, so
/// the use of a closed group is detected and reported as an error.
struct GroupHandle {
  std::string name;
  std::weak_ptr<Group> group;
};

struct Group {
  std::string name;
  GroupHandle* handle = nullptr;  // created on demand
  int rank = 0;
  int size = 1;
  std::unique_ptr<Communicator> communicator;  // null if the group uses c10d
  std::string reason;
  std::mutex mutex;  // serializes the group's operations
};

/// Throws `invalid_state` if there is no group with this name, or if its process group was
/// destroyed, because the name may then belong to a different process group.
std::shared_ptr<Group> find_group(const std::string& name);
bool has_group(const std::string& name);
/// Returns the group's handle. Throws the same errors as find_group().
GroupHandle* find_handle(const std::string& name);
/// Throws `invalid_state` if the group was closed or destroyed.
std::shared_ptr<Group> group_of(const GroupHandle& handle);
/// Creates the group, or changes the timeout of an existing group. Returns an empty string, or the
/// reason why the group does not use shared memory. Throws `invalid_state` if the existing group
/// has failed, because this rank cannot know whether the other ranks have noticed the failure.
std::string init_group(const std::string& name, std::int64_t rank, std::int64_t size,
                       double timeout_seconds);
void close_group(const std::string& name);

/// Returns the name of the group for the ops with DeepSpeed's names, whose calls do not name a
/// group. This is the first group, unless choose_group() was called.
std::string chosen_group();
void choose_group(const std::string& name);

/// Gathers `bytes` bytes from every rank through the process group, in rank order. Throws
/// `unavailable` on failure.
void gather_bytes(const Group& group, const void* mine, std::size_t bytes, void* all);

}  // namespace anyaccel::ops::shm

// Groups by the name of their process group. Without tensors: torch's headers for them take the
// compiler longer than the rest of this op.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "comm/shm/communicator.h"

namespace anyaccel::ops::shm {

struct Group;

/// Where those who call a group by address find it. Never freed, so that a call after the group's
/// end is an error.
struct GroupHandle {
  std::string name;
  std::weak_ptr<Group> group;
};

struct Group {
  std::string name;
  GroupHandle* handle = nullptr;  // once one was asked for
  int rank = 0;
  int size = 1;
  std::unique_ptr<Communicator> communicator;  // empty: c10d
  std::string reason;
  std::mutex mutex;  // operations of one group, one after the other
};

/// `invalid_state` when there is none of that name, or when its process group was destroyed:
/// another one may have the name now.
std::shared_ptr<Group> find_group(const std::string& name);
bool has_group(const std::string& name);
/// Of the group of that name; find_group()'s errors.
GroupHandle* find_handle(const std::string& name);
/// `invalid_state` when the group was closed or destroyed.
std::shared_ptr<Group> group_of(const GroupHandle& handle);
/// Makes the group, or gives the one that is there another timeout. Returns why it has no memory of
/// its own, else "". A group that failed is `invalid_state`: whether the other ranks know that
/// already cannot be told from here.
std::string init_group(const std::string& name, std::int64_t rank, std::int64_t size,
                       double timeout_seconds);
void close_group(const std::string& name);

/// The group of DeepSpeed's names, whose calls do not say which: the first one unless chosen.
std::string chosen_group();
void choose_group(const std::string& name);

/// `bytes` bytes of every rank, one rank after the other, through the process group. `unavailable`
/// when that fails.
void gather_bytes(const Group& group, const void* mine, std::size_t bytes, void* all);

}  // namespace anyaccel::ops::shm

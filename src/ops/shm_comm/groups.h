// Groups by the name of their process group, and the process group's own operations where ranks share no memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "communicator.h"

namespace anyaccel::ops::shm {

struct Group {
  std::string name;
  int rank = 0;
  int size = 1;
  std::unique_ptr<Communicator> communicator;  // empty: c10d
  std::string reason;
  std::mutex mutex;  // operations of one group, one after the other
};

/// `invalid_state` when there is none of that name, or when its process group was destroyed: another one may have the name now.
std::shared_ptr<Group> find_group(const std::string& name);
bool has_group(const std::string& name);
/// Makes the group, or gives the one that is there another timeout. Returns why it has no memory of its own, else "". A group that
/// failed is `invalid_state`: whether the other ranks know that already cannot be told from here.
std::string init_group(const std::string& name, std::int64_t rank, std::int64_t size, double timeout_seconds);
void close_group(const std::string& name);

/// The group of DeepSpeed's names, whose calls do not say which: the first one unless chosen.
std::string chosen_group();
void choose_group(const std::string& name);

/// c10d's operators, waited for; `unavailable` when one fails. `op`: c10d's name of a reduction.
at::Tensor gather_over_c10d(const Group& group, const at::Tensor& tensor);
void apply_over_c10d(const Group& group, const at::Tensor& tensor, const char* op);
void broadcast_over_c10d(const Group& group, const at::Tensor& tensor, std::int64_t source);
/// Reduces numbers of `kind` in one dimension, in place, through the process group, with the meaning that Kernels::reduce has.
void reduce_over_c10d(const Group& group, const at::Tensor& numbers, Kind kind, Reduce reduce);

}  // namespace anyaccel::ops::shm

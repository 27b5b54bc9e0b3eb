// Programs with a bug and their fixed versions. Each source defines one:
//
//   SIM_BUG(name, kind, op, shape) { ...; if (fixed) ...; }
//
// `kind`, `op` and `shape` are what the checker must report for the bug. It must report nothing for
// the fixed version.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "anyaccel/accelerator.h"

namespace anyaccel::sim_bugs {

struct Bug {
  const char *name, *kind, *op, *shape;
  void (*run)(bool fixed);
};

inline std::vector<Bug>& bugs() {
  static std::vector<Bug> all;
  return all;
}

struct Registered {
  explicit Registered(const Bug& bug) { bugs().push_back(bug); }
};

/// Options for a float32 tensor on a simulated device.
inline at::TensorOptions on(int index = 0) {
  return at::TensorOptions().dtype(at::kFloat).device(get_accelerator().torch_device(index));
}

inline at::Tensor pinned(c10::IntArrayRef sizes) {
  auto& accelerator = get_accelerator();
  return accelerator.pin_memory(at::ones(sizes));
}

/// Queues a matrix product, which keeps the current stream busy for a short time.
inline at::Tensor busy(const at::Tensor& matrix) { return at::mm(matrix, matrix).mul_(1e-3); }

}  // namespace anyaccel::sim_bugs

#define SIM_BUG(bug_name, kind, op, shape)                             \
  static void bug_name([[maybe_unused]] bool fixed);                   \
  static const ::anyaccel::sim_bugs::Registered bug_name##_registered( \
      {#bug_name, kind, op, shape, &bug_name});                        \
  static void bug_name([[maybe_unused]] bool fixed)

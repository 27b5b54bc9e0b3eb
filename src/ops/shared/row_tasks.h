// Parallel loops over rows. How the rows are divided does not depend on the number of threads.
#pragma once

#include "ops/shared/tasks.h"

namespace anyaccel::ops {

constexpr std::int64_t elements_of_task = 8192;

/// Returns the number of rows per task. It depends only on the sizes, so that sums over rows do not
/// depend on the number of threads.
inline std::int64_t rows_of_task(std::int64_t rows, std::int64_t columns) {
  const std::int64_t enough =
      std::max<std::int64_t>(1, elements_of_task / std::max<std::int64_t>(1, columns));
  return std::max(enough, (rows + 63) / 64);
}

/// Calls function(begin, end, thread, task) for ranges that cover all rows.
template <typename Function>
void parallel_rows(std::int64_t rows, std::int64_t columns, const Function& function) {
  const std::int64_t each = rows_of_task(rows, columns);
  parallel_tasks((rows + each - 1) / each, task_threads(),
                 [&](std::int64_t task, std::int64_t thread) {
                   function(task * each, std::min(rows, (task + 1) * each), thread, task);
                 });
}

}  // namespace anyaccel::ops

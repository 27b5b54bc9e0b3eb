// The kinds of problems that the checker reports, and their formats as text and JSON. Does not use
// torch.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace anyaccel::backends::sim::checking {

enum class Kind {
  host_access,        ///< host access to device memory
  wrong_device,       ///< use of a tensor on the wrong device
  not_synchronized,   ///< host access to pinned memory before a copy has completed
  unordered_streams,  ///< unordered use on two streams
  freed_in_use,       ///< memory freed while work may still use it
  memory_limit,       ///< out of device memory
  unordered_threads,  ///< unordered launches of conflicting work by two host threads
  uninitialized,      ///< read of memory that was never written
  leak,               ///< memory that is allocated when the program exits
  other_accelerator,  ///< use of another accelerator's device
  rejected,           ///< call that ended in an error, which the program may have handled
  out_of_bounds,      ///< write outside of a tensor's memory
  unseeded_device,    ///< random numbers from an unseeded device, although the host was seeded
};

/// All kinds, in the order of the enumerators.
std::span<const Kind> all_kinds() noexcept;
/// A stable, machine-readable name, such as "unordered_streams".
const char* name(Kind kind) noexcept;
/// A human-readable title, such as "unordered use on two streams".
const char* title(Kind kind) noexcept;
/// How to fix the problem, in one sentence.
const char* remedy(Kind kind) noexcept;

/// One of the two operations of a problem: the op, its stream and its tensor.
struct Part {
  std::string op;      ///< "aten::mm"; "host code" outside of ops
  std::string stream;  ///< "stream 3 of sim:0"; empty if there is none
  std::string shape;   ///< "float32 [8, 64]"; empty if there is no tensor
  std::vector<std::string> stack = {};
  int stream_id = -1;               ///< number in the detector; -1 without a stream
  std::string stream_created = {};  ///< the line that created the stream; empty for default streams
};

struct Problem {
  Kind kind = Kind::host_access;
  std::string what;  ///< one sentence
  Part now;
  Part before = {};  ///< the earlier operation; its op is empty if there is none
  /// Place in the program. Problems with the same place, ops and streams are the same problem.
  std::size_t place = 0;
  std::uint64_t seen = 1;  ///< number of occurrences
  /// The program's own line, such as 'File "train.py", line 12 in step'. Problems of the same kind
  /// with the same line and streams are alike.
  std::string line = {};
  std::uint64_t similar = 0;  ///< number of occurrences of problems that are alike
};

/// `rank`: the process's rank in a job; empty outside of jobs.
/// `prefix`: words before the title.
std::string text(const Problem& problem, const std::string& rank = {}, const char* prefix = "");
/// Returns {"tool": ..., "problems": [...], "notes": [...]}, one problem per line.
std::string json(const std::vector<Problem>& problems, const std::vector<Problem>& notes,
                 const std::string& rank = {});

}  // namespace anyaccel::backends::sim::checking

#include "io/async/write_conflicts.h"

#include <algorithm>
#include <map>
#include <utility>

namespace anyaccel::ops::aio {

namespace {

/// Maximum size and alignment of a page-cache folio.
constexpr std::int64_t kPiece = 2 << 20;

bool meet(const Range& a, const Range& b) { return a.begin < b.end && b.begin < a.end; }

Range whole_pieces(const Range& range) {
  return {round_down(range.begin, kPiece), round_up(range.end, kPiece)};
}

}  // namespace

std::shared_ptr<WriteConflicts> WriteConflicts::of(dev_t device, ino_t number) {
  // Never destroyed, because files may be open during static destruction.
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::map<std::pair<dev_t, ino_t>, std::weak_ptr<WriteConflicts>>;
  const std::lock_guard lock(mutex);
  const std::pair key{device, number};
  if (const auto found = all.find(key); found != all.end())
    if (auto same = found->second.lock()) return same;
  std::erase_if(all, [](const auto& entry) { return entry.second.expired(); });
  auto made = std::make_shared<WriteConflicts>();
  all[key] = made;
  return made;
}

bool WriteConflicts::begin(const Range& range, bool direct) {
  const std::lock_guard lock(mutex_);
  // A waiting write cannot starve: only a few blocks near each other wait, and later blocks are in
  // other parts of the file.
  const auto& others = direct ? cached_ : direct_;
  if (std::any_of(others.begin(), others.end(), [&](const Range& other) {
        return meet(whole_pieces(other), whole_pieces(range));
      }))
    return false;
  (direct ? direct_ : cached_).push_back(range);
  return true;
}

void WriteConflicts::end(const Range& range, bool direct) noexcept {
  const std::lock_guard lock(mutex_);
  auto& own = direct ? direct_ : cached_;
  const auto found = std::find(own.begin(), own.end(), range);
  if (found == own.end()) return;
  *found = own.back();
  own.pop_back();
}

}  // namespace anyaccel::ops::aio

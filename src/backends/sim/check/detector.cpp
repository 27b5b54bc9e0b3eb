#include "backends/sim/check/detector.h"

#include <algorithm>

#include "backends/sim/check/host_threads.h"

namespace anyaccel::backends::sim::checking {

namespace {

// Limits for memory that is written in many small pieces, such as a KV cache. Beyond kMaxUses, the
// oldest uses are dropped and conflicts with them are not detected.
constexpr std::size_t kTidyAt = 64;
constexpr std::size_t kMaxUses = 512;
constexpr std::size_t kMaxFreed = 1024;

bool both_matter(const Use& a, const Use& b) { return a.written || b.written; }

/// True if the launch of `before` is known to the calling thread, or if one of the two threads is
/// not tracked.
bool launched_before(const Use& before, const HostThread& host) {
  return before.thread == host.id || before.thread < 0 || host.id < 0 ||
         host.clock.thread(before.thread) >= before.thread_time;
}

}  // namespace

Detector::Blocks::iterator Detector::find(std::uintptr_t address) {
  auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return blocks_.end();
  --after;
  return address < after->first + after->second.bytes ? after : blocks_.end();
}

Detector::Blocks::const_iterator Detector::find(std::uintptr_t address) const {
  return const_cast<Detector*>(this)->find(address);
}

Detector::Block& Detector::block_of(const Touch& touch) {
  if (const auto found = find(touch.storage); found != blocks_.end()) return found->second;
  // Host memory from other allocators, such as registered memory, is not known here yet.
  auto& block = blocks_[touch.storage];
  block = {.bytes = touch.bytes, .number = ++number_, .live = true};
  return block;
}

void Detector::add(std::vector<Use>& uses, Use use, std::size_t bytes, Conflicts& found) {
  auto& host = host_thread();
  use.thread = host.id;
  use.thread_time = host.id < 0 ? 0 : host.clock.thread(host.id);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    auto& before = uses[i];
    const bool ordered = clocks_.ordered(before.stream, before.time, use.stream, host);
    const bool launched = launched_before(before, host);
    if (!(ordered && launched) && both_matter(before, use) && overlap(before.region, use.region))
      found.push_back({.kind = ordered ? Conflict::unordered_threads : Conflict::unordered,
                       .now = use,
                       .before = before,
                       .bytes = bytes});
    // Later work that conflicts with the older use conflicts with this one too.
    const bool same_kind =
        launched && before.stream == use.stream && (use.written || !before.written);
    const bool replaced = (same_kind || (use.written && ordered)) && use.rows == nullptr &&
                          covers(use.region, before.region);
    if (replaced) continue;
    if (kept != i) uses[kept] = std::move(before);
    ++kept;
  }
  uses.resize(kept);
  if (uses.size() >= kTidyAt)
    std::erase_if(
        uses, [&](const Use& each) { return clocks_.known_by_host(each.stream, each.time, host); });
  if (uses.size() >= kMaxUses) uses.erase(uses.begin(), uses.begin() + kMaxUses / 2);
  uses.push_back(std::move(use));
}

void Detector::check_freed(const Use& use, const Block& block, Conflicts& found) {
  const auto list = freed_.find(use.stream);
  if (list == freed_.end() || list->second.empty()) return;
  std::erase_if(list->second, [&](const Freed& freed) {
    if (clocks_.ordered(freed.use.stream, freed.use.time, use.stream, host_thread())) return true;
    // Only a block that was allocated after the free may reuse the freed memory.
    if (!use.written || block.owner != use.stream || block.number < freed.number) return false;
    found.push_back({.kind = Conflict::freed_in_use,
                     .now = use,
                     .before = freed.use,
                     .bytes = freed.bytes,
                     .freed_at = freed.stack});
    return true;
  });
}

void Detector::check_former(const Use& use, Block& block, Conflicts& found) {
  std::erase_if(block.former, [&](const Use& before) {
    if (clocks_.ordered(before.stream, before.time, use.stream, host_thread())) return true;
    if (!(before.stream != use.stream && both_matter(before, use)) ||
        !overlap(before.region, use.region))
      return false;
    found.push_back({.kind = Conflict::reused, .now = use, .before = before, .bytes = block.bytes});
    return true;
  });
}

void Detector::keep_former(std::uintptr_t address, const Block& block) {
  if (block.owner < 0 || block.pool != 0) return;
  auto& list = former_[block.owner];
  if (list.size() >= kTidyAt)
    std::erase_if(list, [&](const Former& each) {
      return clocks_.known_by_host(each.use.stream, each.use.time, host_thread());
    });
  for (const auto& use : block.uses) {
    // If the owner's stream does not wait for a use, the use is in freed_, or the allocator has not
    // released the block yet.
    if (!clocks_.ordered(use.stream, use.time, block.owner, host_thread()) ||
        clocks_.known_by_host(use.stream, use.time, host_thread()))
      continue;
    if (list.size() >= kMaxFreed) list.erase(list.begin(), list.begin() + kMaxFreed / 2);
    list.push_back({.low = address, .high = address + block.bytes, .use = use});
  }
}

void Detector::take_former(std::uintptr_t address, Block& block) {
  block.former.clear();
  const auto list = former_.find(block.owner);
  if (list == former_.end() || block.pool != 0) return;
  for (const auto& [low, high, use] : list->second)
    if (low < address + block.bytes && address < high &&
        !clocks_.known_by_host(use.stream, use.time, host_thread()))
      block.former.push_back(use);
}

Detector::Conflicts Detector::launch(StreamId stream, const char* op,
                                     const std::vector<Touch>& touches,
                                     std::shared_ptr<const Frames> frames) {
  Conflicts found;
  const std::lock_guard lock(mutex_);
  const auto time = clocks_.tick(stream, host_thread());
  for (const auto& touch : touches) {
    auto& block = block_of(touch);
    Use use{.op = op,
            .stream = stream,
            .time = time,
            .written = touch.written,
            .replayed = false,
            .region = touch.region,
            .rows = touch.rows,
            .frames = frames};
    if (uninitialized_ && !use.written && !block.written && block.owner >= 0 && block.pool == 0) {
      block.written = true;  // report it once
      found.push_back(
          {.kind = Conflict::uninitialized, .now = use, .before = {}, .bytes = block.bytes});
    }
    check_freed(use, block, found);
    if (!block.former.empty()) check_former(use, block, found);
    add(block.uses, std::move(use), block.bytes, found);
  }
  for (const auto& touch : touches)
    if (touch.written) block_of(touch).written = true;
  return found;
}

Detector::Conflicts Detector::capture(const void* graph, Pool pool, StreamId stream, const char* op,
                                      const std::vector<Touch>& touches) {
  Conflicts found;
  const std::lock_guard lock(mutex_);
  const auto time = clocks_.tick(stream, host_thread());
  auto& own = graphs_[graph];
  own.pool = pool;
  for (const auto& touch : touches) {
    auto& block = block_of(touch);
    block.written |= touch.written;
    auto& captured = own.blocks[touch.storage];
    if (captured.number != block.number)
      captured = {.touch = touch, .number = block.number, .pool = block.pool, .uses = {}};
    Use use{.op = op,
            .stream = stream,
            .time = time,
            .written = touch.written,
            .replayed = true,
            .region = touch.region,
            .frames = nullptr};
    add(captured.uses, std::move(use), block.bytes, found);
  }
  return found;
}

Detector::Conflicts Detector::replay(const void* graph, StreamId stream) {
  Conflicts found;
  const std::lock_guard lock(mutex_);
  const auto time = clocks_.tick(stream, host_thread());
  const auto known = graphs_.find(graph);
  if (known == graphs_.end()) return found;
  const auto graph_pool = known->second.pool;
  for (const auto& [storage, captured] : known->second.blocks) {
    const auto at = find(storage);
    const bool same =
        at != blocks_.end() && at->second.live && at->second.number == captured.number;
    if (!same) {
      // A graph may reuse its own memory. While a graph that uses the pool exists, no other work
      // gets memory from that pool.
      if (captured.pool != 0 && (captured.pool == graph_pool || in_use(captured.pool))) continue;
      if (captured.uses.empty()) continue;
      Use now{.op = "graph.replay",
              .stream = stream,
              .time = time,
              .replayed = true,
              .region = {},
              .frames = {}};
      found.push_back({.kind = Conflict::freed_capture,
                       .now = std::move(now),
                       .before = captured.uses.back(),
                       .bytes = captured.touch.bytes});
      continue;
    }
    for (auto use : captured.uses) {
      use.stream = stream;
      use.time = time;
      check_freed(use, at->second, found);
      add(at->second.uses, std::move(use), at->second.bytes, found);
    }
  }
  return found;
}

bool Detector::in_use(Pool pool) const {
  return std::any_of(graphs_.begin(), graphs_.end(),
                     [&](const auto& graph) { return graph.second.pool == pool; });
}

void Detector::end_graph(const void* graph) {
  const std::lock_guard lock(mutex_);
  graphs_.erase(graph);
}

void Detector::allocate(std::uintptr_t address, std::size_t bytes, StreamId owner, Pool pool,
                        std::shared_ptr<const Stack> stack) {
  const std::lock_guard lock(mutex_);
  auto at = find(address);
  if (at == blocks_.end()) at = blocks_.lower_bound(address);
  while (at != blocks_.end() && at->first < address + bytes)
    at = at->first == address ? ++at : blocks_.erase(at);
  auto& block = blocks_[address];
  block.bytes = bytes;
  block.owner = owner;
  block.number = ++number_;
  block.live = true;
  block.written = false;
  block.pool = pool;
  block.stack = std::move(stack);
  block.recorded.clear();
  block.uses.clear();
  take_former(address, block);
}

void Detector::free(std::uintptr_t address, StackFunction stack) {
  std::shared_ptr<const Stack> here;
  const std::lock_guard lock(mutex_);
  const auto at = blocks_.find(address);
  if (at == blocks_.end() || !at->second.live) return;
  auto& block = at->second;
  block.live = false;
  ++number_;
  keep_former(address, block);
  for (auto& use : block.uses) {
    if (block.owner < 0 || block.pool != 0 ||
        clocks_.ordered(use.stream, use.time, block.owner, host_thread()))
      continue;
    if (std::find(block.recorded.begin(), block.recorded.end(), use.stream) != block.recorded.end())
      continue;
    auto& list = freed_[block.owner];
    if (list.size() >= kMaxFreed) list.erase(list.begin(), list.begin() + kMaxFreed / 2);
    if (here == nullptr && stack != nullptr) here = stack();
    list.push_back({.use = std::move(use), .bytes = block.bytes, .number = number_, .stack = here});
  }
  block.uses.clear();
}

void Detector::record_stream(std::uintptr_t address, StreamId stream) {
  const std::lock_guard lock(mutex_);
  if (const auto at = find(address); at != blocks_.end()) at->second.recorded.push_back(stream);
}

void Detector::record(std::uint64_t event, StreamId stream) {
  const std::lock_guard lock(mutex_);
  clocks_.record(event, stream, host_thread());
}
void Detector::wait(std::uint64_t event, StreamId stream) {
  const std::lock_guard lock(mutex_);
  clocks_.wait(event, stream);
}
void Detector::host_waits_for_event(std::uint64_t event) {
  const std::lock_guard lock(mutex_);
  clocks_.host_waits_for_event(event, host_thread());
}
void Detector::host_waits_for_stream(StreamId stream) {
  const std::lock_guard lock(mutex_);
  clocks_.host_waits_for_stream(stream, host_thread());
}
Time Detector::now(StreamId stream) const {
  const std::lock_guard lock(mutex_);
  return clocks_.now(stream);
}
bool Detector::known_by_any(StreamId stream, Time time) const {
  const std::lock_guard lock(mutex_);
  return clocks_.known_by_any(stream, time);
}

Memory Detector::describe(const Blocks::value_type& block) {
  Memory memory{.address = block.first,
                .bytes = block.second.bytes,
                .live = block.second.live,
                .allocated_at = block.second.stack,
                .last = {}};
  for (const auto& use : block.second.uses)
    if (!memory.last || use.written || !memory.last->written) memory.last = use;
  return memory;
}

std::optional<Memory> Detector::memory_at(std::uintptr_t address) const {
  const std::lock_guard lock(mutex_);
  const auto at = find(address);
  if (at == blocks_.end()) return std::nullopt;
  return describe(*at);
}

std::pair<std::size_t, std::vector<Memory>> Detector::live_in(std::uintptr_t low,
                                                              std::uintptr_t high,
                                                              std::size_t most) const {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  std::vector<Memory> all;
  for (auto at = blocks_.lower_bound(low); at != blocks_.end() && at->first < high; ++at) {
    if (!at->second.live) continue;
    sum += at->second.bytes;
    all.push_back(describe(*at));
  }
  std::sort(all.begin(), all.end(),
            [](const Memory& a, const Memory& b) { return a.bytes > b.bytes; });
  if (all.size() > most) all.resize(most);
  return {sum, std::move(all)};
}

}  // namespace anyaccel::backends::sim::checking

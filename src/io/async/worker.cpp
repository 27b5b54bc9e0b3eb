#include "io/async/worker.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "anyaccel/error.h"

namespace anyaccel::ops::aio {

Worker::Worker(Engine& engine) : engine_(engine), block_bytes_(engine.options().block_bytes) {
  std::promise<void> ready;
  auto started = ready.get_future();
  thread_ = std::thread([this, &ready] { run(ready); });
  try {
    started.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  thread_.join();
}

void Worker::add_slice(Slices& slices, std::shared_ptr<Request> request, Range range) {
  auto& slice = slices.emplace_back();
  slice.request = std::move(request);
  slice.left = range;
  slice.edges.reserve(2);
}

void Worker::take_first(Slices& slices) noexcept {
  {
    const std::lock_guard lock(mutex_);
    new_.splice(new_.end(), slices, slices.begin());
  }
  work_.notify_one();
}

void Worker::run(std::promise<void>& ready) {
  const auto depth = engine_.options().queue_depth;
  try {
    auto choice = engine_.options().make_queue(depth);
    queue_ = std::move(choice.queue);
    queue_name_ = queue_->name();
    queue_reason_ = std::move(choice.reason);
    blocks_.resize(depth);
    // Reserve all memory now, so that handling a completed block does not allocate.
    free_.reserve(depth);
    ready_.reserve(depth);
    batch_.reserve(depth);
    done_.reserve(depth);
    bounces_.reserve(depth);
    free_bounces_.reserve(depth);
    lost_ = std::make_unique<Lost>();
    for (auto& block : blocks_) free_.push_back(&block);
  } catch (...) {
    ready.set_exception(std::current_exception());
    return;
  }
  ready.set_value();
  serve();
  queue_.reset();
  if (broken_) lose();
}

void Worker::serve() noexcept {
  for (;;) {
    try {
      if (!take_new()) return;
      if (broken_)
        fail_slices(EIO, why_broken_.c_str());
      else
        turn();
    } catch (...) {
      recover();
    }
  }
}

bool Worker::take_new() {
  std::unique_lock lock(mutex_);
  if (slices_.empty()) work_.wait(lock, [this] { return stopping_ || !new_.empty(); });
  slices_.splice(slices_.end(), new_);
  return !slices_.empty();
}

void Worker::turn() {
  const bool overlap = engine_.options().overlap_events;
  if (overlap || under_way_ == 0) fill();
  send();
  if (under_way_ == 0) {
    // The blocks were refused or conflict with writes by other workers, so no completion will wake
    // this thread.
    if (!ready_.empty()) rest();
    return;
  }
  done_.clear();
  refusals_ = false;
  reaping_ = true;
  queue_->reap(overlap ? 1 : under_way_, done_);
  collect();
  for (auto* transfer : done_) settle(*static_cast<Block*>(transfer));
  if (refusals_ && under_way_ == 0) rest();
}

void Worker::rest() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

void Worker::collect() noexcept {
  under_way_ -= done_.size();
  for (auto* transfer : done_) static_cast<Block*>(transfer)->in_system = false;
  reaping_ = false;
}

/// Registers a write in the file's WriteConflicts. Returns false if the write must wait for a
/// conflicting write in flight.
bool Worker::claim(Block& block) {
  if (!block.write || block.claimed) return true;
  auto* conflicts = block.slice->request->job_.file->write_conflicts();
  if (conflicts == nullptr) return true;
  block.claim = {block.offset, block.offset + static_cast<std::int64_t>(block.bytes)};
  block.claim_direct = block.direct && block.slice->request->job_.file->direct();
  block.claimed = conflicts->begin(block.claim, block.claim_direct);
  return block.claimed;
}

void Worker::unclaim(Block& block) noexcept {
  if (block.claimed)
    block.slice->request->job_.file->write_conflicts()->end(block.claim, block.claim_direct);
  block.claimed = false;
}

/// Drops a block that has not been submitted if the block's request has stopped or `patience` has
/// expired. Returns true if it dropped the block.
bool Worker::give_up(Block& block) {
  Request& request = *block.slice->request;
  int error = 0;
  if (request.stop_) error = ECANCELED;
  const bool refused = block.refused != Clock::time_point{};
  if (refused && Clock::now() - block.refused > engine_.options().patience) error = EAGAIN;
  if (error == 0) return false;
  fail(request, error, block.offset);
  release(block);
  return true;
}

void Worker::again(Block& block) {
  refusals_ = true;
  if (block.refused == Clock::time_point{}) block.refused = Clock::now();
  if (!give_up(block)) ready_.push_back(&block);
}

void Worker::fill() {
  for (auto slice = slices_.begin(); slice != slices_.end();) {
    Range piece;
    while (!free_.empty() && next_piece(*slice, piece)) prepare(*slice, piece);
    if (free_.empty()) return;
    if (slice->under_way == 0) {
      if (!end_slice(*slice)) continue;
      slice = slices_.erase(slice);
    } else {
      ++slice;
    }
  }
}

bool Worker::next_piece(Slice& slice, Range& piece) {
  Request& request = *slice.request;
  if (request.stop_) {
    if (slice.left.bytes() > 0 || !slice.edges.empty()) fail(request, ECANCELED, slice.left.begin);
    slice.left.begin = slice.left.end;
    slice.edges.clear();
    return false;
  }
  if (slice.last) {
    if (slice.edges.empty()) return false;
    piece = slice.edges.back();
    slice.edges.pop_back();
    return true;
  }
  while (slice.left.bytes() > 0) {
    const auto unit = request.job_.file->unit();
    piece = first_piece(slice.left, unit, block_bytes_);
    slice.left.begin = piece.end;
    if (!request.job_.write || is_whole(piece, unit)) return true;
    slice.edges.push_back(piece);
  }
  return false;
}

/// Direct reads transfer whole units; direct writes transfer exactly the bytes of `piece`. If the
/// caller's memory is too small or not aligned, a bounce buffer replaces it.
void Worker::prepare(Slice& slice, const Range& piece) {
  auto& job = slice.request->job_;
  auto& file = *job.file;
  auto* memory = job.memory + (piece.begin - job.range.begin);
  const auto unit = file.unit();
  const bool direct = unit > 1;
  const Range range =
      direct ? Range{round_down(piece.begin, unit), round_up(piece.end, unit)} : piece;
  char* bounce = nullptr;
  if (direct &&
      (range != piece || reinterpret_cast<std::uintptr_t>(memory) % file.memory_alignment() != 0)) {
    bounce = take_bounce();
    if (bounce == nullptr) return fail(*slice.request, ENOMEM, piece.begin);
    if (job.write) std::memcpy(bounce, memory, static_cast<std::size_t>(piece.bytes()));
  }
  auto& block = *free_.back();
  free_.pop_back();
  static_cast<Transfer&>(block) = {.file = file.descriptor(),
                                   .write = job.write,
                                   .memory = bounce != nullptr ? bounce : memory,
                                   .bytes = static_cast<std::size_t>(range.bytes()),
                                   .offset = range.begin};
  block.slice = &slice;
  block.wanted = piece;
  block.start = range.begin;
  block.bounce = bounce;
  block.direct = direct;
  block.refused = {};
  ++slice.under_way;
  ready_.push_back(&block);
}

void Worker::send() {
  batch_.clear();
  std::erase_if(ready_, [this](Block* block) { return give_up(*block); });
  for (auto* block : ready_)
    if (claim(*block)) batch_.push_back(block);
  const std::size_t most = engine_.options().single_submit ? 1 : batch_.size();
  std::size_t sent = 0;
  while (sent < batch_.size()) {
    const auto taken = queue_->submit(batch_.data() + sent, std::min(most, batch_.size() - sent));
    if (taken == 0) break;
    for (auto i = sent; i < sent + taken; ++i) static_cast<Block*>(batch_[i])->in_system = true;
    sent += taken;
    under_way_ += taken;
  }
  std::erase_if(ready_, [](const Block* block) { return block->in_system; });
  // The system has no room for more requests. The remaining blocks wait until `patience` expires.
  if (sent < batch_.size() && under_way_ == 0)
    for (auto* block : ready_)
      if (block->refused == Clock::time_point{}) block->refused = Clock::now();
}

void Worker::settle(Block& block) {
  Request& request = *block.slice->request;
  File& file = *request.job_.file;
  const auto result = block.result;
  unclaim(block);
  const auto go_through_cache = [&] {
    file.stop_direct();
    block.direct = false;
    ready_.push_back(&block);
  };
  if (result == -EINTR || result == -EAGAIN) return again(block);
  // Some file systems accept O_DIRECT but then reject direct transfers, with various errors.
  if ((result == -EINVAL || result == -EOPNOTSUPP) && block.direct) return go_through_cache();
  if (result <= 0) {
    fail(request, result < 0 ? static_cast<int>(-result) : block.write ? EIO : -1, block.offset);
    return release(block);
  }
  const auto unit = file.unit();
  block.refused = {};
  block.memory += result;
  block.offset += result;
  if (block.offset < block.wanted.end) {
    block.bytes -= static_cast<std::size_t>(result);
    if (block.direct && block.offset % unit != 0) return go_through_cache();
    return ready_.push_back(&block);
  }
  if (block.bounce != nullptr && !block.write)
    std::memcpy(request.job_.memory + (block.wanted.begin - request.job_.range.begin),
                block.bounce + (block.wanted.begin - block.start),
                static_cast<std::size_t>(block.wanted.bytes()));
  release(block);
}

void Worker::release(Block& block) noexcept {
  unclaim(block);
  if (block.bounce != nullptr) free_bounces_.push_back(block.bounce);
  --block.slice->under_way;
  free_.push_back(&block);
}

/// Returns true if this worker is done with the request.
bool Worker::end_slice(Slice& slice) {
  auto& request = *slice.request;
  if (!slice.last) {
    const std::lock_guard lock(request.mutex_);
    request.edges_.insert(request.edges_.end(), slice.edges.begin(), slice.edges.end());
    slice.edges.clear();
    if (--request.slices_ > 0) return true;
    slice.last = true;
    slice.edges.swap(request.edges_);
  }
  if (!slice.edges.empty()) {
    // Write the edges only now that no direct write of this request is in flight, because the page
    // cache may hold an edge and directly written data in one folio.
    request.job_.file->stop_direct();
    return false;
  }
  engine_.finish(std::move(slice.request));
  return true;
}

char* Worker::take_bounce() {
  if (free_bounces_.empty()) {
    const auto bytes = round_up(block_bytes_, kMaxUnit) + kMaxUnit;
    Memory memory(
        static_cast<char*>(std::aligned_alloc(kMemoryAlignment, static_cast<std::size_t>(bytes))),
        &std::free);
    if (memory == nullptr) return nullptr;
    free_bounces_.push_back(memory.get());
    bounces_.push_back(std::move(memory));
  }
  auto* bounce = free_bounces_.back();
  free_bounces_.pop_back();
  return bounce;
}

}  // namespace anyaccel::ops::aio

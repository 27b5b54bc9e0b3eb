// The collectives. Data passes through the slots in chunks: this rank writes a chunk while the
// others still process the previous one. A rank that has posted round p has read every round
// through p-2, so four slots are enough.
#include <algorithm>
#include <cstring>

#include "anyaccel/error.h"
#include "comm/shm/communicator.h"
#include "comm/shm/layout.h"

namespace anyaccel::ops::shm {

namespace {

void copy(void* to, const void* from, std::size_t bytes) {
  if (to != from && bytes != 0) std::memcpy(to, from, bytes);
}

std::size_t pieces(std::size_t count, std::size_t most) { return (count + most - 1) / most; }

}  // namespace

void Communicator::fold(Kind kind, Reduce reduce, char* out, std::size_t count) {
  kernels().reduce(kind, reduce, out, sources_.data(), size_, count);
}

void Communicator::all_reduce(const void* in, void* out, std::size_t count, Kind kind,
                              Reduce reduce) {
  const auto bytes = count * size_of(kind);
  begin(Call::all_reduce, bytes,
        static_cast<std::uint32_t>(kind) << 8 | static_cast<std::uint32_t>(reduce));
  if (!can_reduce(kind, reduce))
    throw Error(ErrorCode::unsupported, name_,
                {.what = "AVG requires a floating-point dtype", .want = "a floating-point dtype"});
  const auto* const from = static_cast<const char*>(in);
  auto* const to = static_cast<char*>(out);
  // With two ranks, both algorithms move the same number of bytes. With more ranks, reduce_whole()
  // moves more than reduce_in_parts().
  if (size_ <= 2 || bytes <= kWholeBytes) return reduce_whole(from, to, count, kind, reduce);
  reduce_in_parts(from, to, count, kind, reduce);
}

/// Every rank reduces all elements, in the same order.
void Communicator::reduce_whole(const char* in, char* out, std::size_t count, Kind kind,
                                Reduce reduce) {
  const auto width = size_of(kind);
  const auto most = chunk_ / width;
  const auto chunks = pieces(count, most);
  const auto first = round_ + 1;
  round_ += static_cast<std::uint32_t>(chunks);
  const auto finish = [&](std::size_t i) {
    const auto round = first + static_cast<std::uint32_t>(i);
    wait_for_all(round);
    for (int rank = 0; rank < size_; ++rank)
      sources_[static_cast<std::size_t>(rank)] =
          rank == rank_ ? in + i * most * width : slot(rank, round);
    fold(kind, reduce, out + i * most * width, std::min(most, count - i * most));
  };
  for (std::size_t i = 0; i < chunks; ++i) {
    const auto round = first + static_cast<std::uint32_t>(i);
    wait_until_free(round);
    copy(slot(rank_, round), in + i * most * width, std::min(most, count - i * most) * width);
    post(round);
    if (i > 0) finish(i - 1);
  }
  if (chunks > 0) finish(chunks - 1);
}

/// Each rank reduces its part of a chunk and publishes the result, so a chunk takes two rounds.
void Communicator::reduce_in_parts(const char* in, char* out, std::size_t count, Kind kind,
                                   Reduce reduce) {
  const auto width = size_of(kind);
  const auto ranks = static_cast<std::size_t>(size_);
  const auto mine = static_cast<std::size_t>(rank_);
  const auto most = chunk_ / width;
  for (std::size_t start = 0; start < count; start += most) {
    const auto here = std::min(most, count - start);
    const auto part =
        pieces(pieces(here, ranks) * width, 64) * 64 / width;  // a multiple of a cache line
    const auto begin_of = [&](std::size_t rank) { return std::min(rank * part, here); };
    const auto bytes_of = [&](std::size_t rank) {
      return (begin_of(rank + 1) - begin_of(rank)) * width;
    };
    const auto* const from = in + start * width;
    auto* const to = out + start * width;
    const auto scatter = ++round_;
    const auto gather = ++round_;

    wait_until_free(scatter);
    const auto before = begin_of(mine) * width;
    const auto behind = begin_of(mine + 1) * width;
    copy(slot(rank_, scatter), from, before);
    copy(slot(rank_, scatter) + behind, from + behind, here * width - behind);
    post(scatter);
    wait_for_all(scatter);
    wait_until_free(gather);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      sources_[rank] = (rank == mine ? from : slot(static_cast<int>(rank), scatter)) + before;
    fold(kind, reduce, to + before, begin_of(mine + 1) - begin_of(mine));
    copy(slot(rank_, gather) + before, to + before, bytes_of(mine));
    post(gather);
    wait_for_all(gather);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (rank != mine)
        copy(to + begin_of(rank) * width,
             slot(static_cast<int>(rank), gather) + begin_of(rank) * width, bytes_of(rank));
  }
}

void Communicator::all_gather(const void* in, void* out, std::size_t bytes) {
  begin(Call::all_gather, bytes, 0);
  const auto* const from = static_cast<const char*>(in);
  auto* const to = static_cast<char*>(out);
  copy(to + static_cast<std::size_t>(rank_) * bytes, in, bytes);
  const auto chunks = pieces(bytes, chunk_);
  const auto first = round_ + 1;
  round_ += static_cast<std::uint32_t>(chunks);
  const auto finish = [&](std::size_t i) {
    const auto round = first + static_cast<std::uint32_t>(i);
    wait_for_all(round);
    for (int rank = 0; rank < size_; ++rank)
      if (rank != rank_)
        copy(to + static_cast<std::size_t>(rank) * bytes + i * chunk_, slot(rank, round),
             std::min(chunk_, bytes - i * chunk_));
  };
  for (std::size_t i = 0; i < chunks; ++i) {
    const auto round = first + static_cast<std::uint32_t>(i);
    wait_until_free(round);
    copy(slot(rank_, round), from + i * chunk_, std::min(chunk_, bytes - i * chunk_));
    post(round);
    if (i > 0) finish(i - 1);
  }
  if (chunks > 0) finish(chunks - 1);
}

void Communicator::reduce_scatter(const void* in, void* out, std::size_t count, Kind kind,
                                  Reduce reduce) {
  const auto width = size_of(kind);
  begin(Call::reduce_scatter, count * width,
        static_cast<std::uint32_t>(kind) << 8 | static_cast<std::uint32_t>(reduce));
  if (!can_reduce(kind, reduce))
    throw Error(ErrorCode::unsupported, name_,
                {.what = "AVG requires a floating-point dtype", .want = "a floating-point dtype"});
  const auto* const from = static_cast<const char*>(in);
  const auto ranks = static_cast<std::size_t>(size_);
  const auto mine = static_cast<std::size_t>(rank_);
  // Number of bytes in a slot for each rank, in whole cache lines.
  const auto part = std::max<std::size_t>(chunk_ / ranks / 64 * 64, 64);
  const auto most = part / width;
  for (std::size_t start = 0; start < count; start += most) {
    const auto here = std::min(most, count - start);
    const auto round = ++round_;
    wait_until_free(round);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (rank != mine)
        copy(slot(rank_, round) + rank * part, from + (rank * count + start) * width, here * width);
    post(round);
    wait_for_all(round);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      sources_[rank] = rank == mine ? from + (mine * count + start) * width
                                    : slot(static_cast<int>(rank), round) + mine * part;
    fold(kind, reduce, static_cast<char*>(out) + start * width, here);
  }
}

void Communicator::broadcast(void* data, std::size_t bytes, int source) {
  begin(Call::broadcast, bytes, static_cast<std::uint32_t>(source));
  if (source < 0 || source >= size_)
    throw Error(ErrorCode::invalid_argument, name_,
                {.what = "the source rank is out of range",
                 .got = "rank " + std::to_string(source),
                 .want = "0 to " + std::to_string(size_ - 1)});
  auto* const bytes_at = static_cast<char*>(data);
  for (std::size_t start = 0; start < bytes; start += chunk_) {
    const auto here = std::min(chunk_, bytes - start);
    const auto round = ++round_;
    wait_until_free(round);
    if (rank_ == source) copy(slot(rank_, round), bytes_at + start, here);
    post(round);
    if (start == 0)
      wait_for_all(round);
    else if (rank_ != source)
      wait_for(source, round);  // wait_until_free() waits for the others before a slot is reused
    if (rank_ == source) continue;
    copy(bytes_at + start, slot(source, round), here);
  }
}

void Communicator::barrier() {
  begin(Call::barrier, 0, 0);
  const auto round = ++round_;
  wait_until_free(round);
  post(round);
  wait_for_all(round);
}

}  // namespace anyaccel::ops::shm

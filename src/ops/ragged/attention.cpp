// Attention over a blocked KV cache. For each head, the keys and values of an atom are copied to
// contiguous memory. All queries that share this head then read the copy.
#include <algorithm>
#include <cstring>

#include "ATen/Dispatch.h"
#include "ATen/ops/full.h"
#include "kernels/decoder/rows.h"
#include "kernels/simd/isa.h"
#include "ops/ragged/batch.h"
#include "ops/shared/empty.h"
#include "ops/shared/tasks.h"

namespace anyaccel::ops {

std::int64_t build_atoms(const Tensor& atoms, const Tensor& metadata, const Tensor& sequences,
                         const Tensor& kv_ptrs, std::int64_t q_block_size,
                         std::int64_t kv_block_size) {
  constexpr const char* where = "build_atoms";
  RaggedBatch batch(where, metadata, sequences);
  batch.set_blocks(kv_ptrs);
  check_on_host(where, "the atoms", atoms);
  if (atoms.scalar_type() != at::kInt || !atoms.is_contiguous() || q_block_size < 1 ||
      kv_block_size < 1)
    fail_argument(where, "the atoms have the wrong shape or dtype, or a block size is out of range",
                  words(atoms), "contiguous int32 [atoms, 8], and blocks of 1 or more");
  auto* const to = reinterpret_cast<AttentionAtom*>(changed_memory(atoms));
  const std::int64_t room = atoms.numel() / 8;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < batch.count(); ++i) {
    const RaggedSequence& sequence = batch.sequence(i);
    for (std::int64_t done = 0; done < sequence.tokens; done += q_block_size) {
      if (count == room)
        fail_argument(where, "the tensor is too small for the atoms", words(atoms),
                      "a larger tensor");
      const std::int64_t queries = std::min<std::int64_t>(q_block_size, sequence.tokens - done);
      const std::int64_t first = sequence.seen + done, keys = first + queries;
      const auto narrow = [](std::int64_t value) { return static_cast<std::int32_t>(value); };
      to[count++] = {batch.blocks(i),
                     narrow(sequence.first + done),
                     narrow(queries),
                     narrow((keys + kv_block_size - 1) / kv_block_size),
                     narrow(keys),
                     narrow(first),
                     0};
    }
  }
  return count;
}

namespace {

struct Paged {
  const Tensor& tensor;
  /// Copies the atom's rows for one head to contiguous memory.
  void gather(const AttentionAtom& atom, std::int64_t head, char* to) const {
    const auto size = static_cast<std::int64_t>(tensor.element_size());
    const std::int64_t row = tensor.size(3) * size, block = tensor.size(1);
    const char* const from =
        static_cast<const char*>(tensor.const_data_ptr()) + head * tensor.stride(2) * size;
    for (std::int64_t key = 0; key < atom.keys; ++key, to += row)
      std::memcpy(
          to,
          from +
              (atom.blocks[key / block] * tensor.stride(0) + key % block * tensor.stride(1)) * size,
          static_cast<std::size_t>(row));
  }
};

void check_cache(const char* where, const Tensor& cache, const Tensor& q) {
  check_on_host(where, "the cache", cache);
  if (cache.dim() != 4 || cache.stride(3) != 1 || cache.scalar_type() != q.scalar_type() ||
      cache.size(3) == 0 || cache.size(2) == 0 || cache.size(1) == 0 ||
      q.size(1) % (cache.size(2) * cache.size(3)) != 0)
    fail_argument(where, "the cache has the wrong shape, strides or dtype", words(cache),
                  c10::str("[blocks, block size, heads, head dim] for queries ", words(q)));
}

}  // namespace

void attend_atoms(const Tensor& out, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& atoms, double scale, bool causal) {
  constexpr const char* where = "flash_attn_by_atoms";
  check_on_host(where, "the queries", q);
  check_on_host(where, "the result", out);
  check_on_host(where, "the atoms", atoms);
  const Element element = element_of(where, "q", q);
  if (q.dim() != 2 || q.stride(1) != 1 || out.dim() != 2 || out.stride(1) != 1 ||
      out.sizes() != q.sizes() || out.scalar_type() != q.scalar_type() ||
      atoms.scalar_type() != at::kInt || !atoms.is_contiguous() || k.sizes() != v.sizes())
    fail_argument(where, "the shapes, strides or dtypes of the tensors do not match",
                  c10::str(words(out), ", ", words(q), ", ", words(k), ", ", words(atoms)),
                  "[tokens, heads * head dim] for out and q, caches of equal shape, and atoms from "
                  "build_atoms");
  check_cache(where, k, q);
  check_cache(where, v, q);
  const auto* const all = reinterpret_cast<const AttentionAtom*>(atoms.const_data_ptr());
  const std::int64_t count = atoms.numel() / 8, shared = k.size(2), dim = k.size(3),
                     heads = q.size(1) / dim;
  std::int64_t most = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const AttentionAtom& atom = all[i];
    if (atom.first_query < 0 || atom.queries < 0 || atom.keys < 0 || atom.first_place < 0 ||
        std::int64_t{atom.first_query} + atom.queries > q.size(0) ||
        (atom.keys + k.size(1) - 1) / k.size(1) > atom.blocks_count)
      fail_argument(where, "an atom exceeds the batch",
                    c10::str(atom.queries, " queries at ", atom.first_query),
                    c10::str("queries within ", q.size(0), " tokens, and blocks for all ",
                             atom.keys, " keys"));
    for (std::int64_t b = 0; b < atom.blocks_count; ++b)
      if (atom.blocks[b] < 0 || atom.blocks[b] >= k.size(0))
        fail_argument(where, "a block number is out of range", std::to_string(atom.blocks[b]),
                      c10::str("0 to ", k.size(0) - 1));
    most = std::max<std::int64_t>(most, atom.keys);
  }
  if (count == 0 || most == 0) return;
  const std::int64_t threads = task_threads(),
                     row = dim * static_cast<std::int64_t>(k.element_size());
  const std::int64_t bytes = (2 * most * row + 63) / 64 * 64, floats = most + 64 + 2 * dim;
  const Tensor copies = empty({threads * bytes}, at::TensorOptions(at::kByte)),
               numbers = empty({threads * floats}, at::TensorOptions(at::kFloat));
  char* const copy = static_cast<char*>(copies.mutable_data_ptr());
  float* const scratch = numbers.mutable_data_ptr<float>();
  const Isa isa = best_isa();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, q.scalar_type(), where, [&] {
    const scalar_t* const queries = q.const_data_ptr<scalar_t>();
    scalar_t* const results = static_cast<scalar_t*>(changed_memory(out));
    parallel_tasks(count * shared, threads, [&](std::int64_t task, std::int64_t thread) {
      const AttentionAtom& atom = all[task / shared];
      const std::int64_t head = task % shared, group = heads / shared;
      char *const keys = copy + thread * bytes, *const values = keys + most * row;
      Paged{k}.gather(atom, head, keys);
      Paged{v}.gather(atom, head, values);
      float *const query = scratch + thread * floats, *const result = query + dim,
                   *const scores = result + dim;
      for (std::int64_t i = 0; i < atom.queries; ++i)
        for (std::int64_t h = head * group; h < (head + 1) * group; ++h) {
          const scalar_t* const from = queries + (atom.first_query + i) * q.stride(0) + h * dim;
          scalar_t* const to = results + (atom.first_query + i) * out.stride(0) + h * dim;
          for (std::int64_t d = 0; d < dim; ++d) query[d] = static_cast<float>(from[d]);
          const std::int64_t end =
              causal ? std::min<std::int64_t>(atom.keys, atom.first_place + i + 1) : atom.keys;
          CachedHead seen{};
          seen.type = element, seen.keys = keys, seen.values = values;
          seen.dim = dim, seen.begin = 0, seen.end = end;
          seen.scale = static_cast<float>(scale);
          attend_row(isa, seen, query, scores, result);
          for (std::int64_t d = 0; d < dim; ++d) to[d] = static_cast<scalar_t>(result[d]);
        }
    });
  });
}

}  // namespace anyaccel::ops

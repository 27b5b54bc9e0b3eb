// Semantic search: the passages of a text folder that are closest in meaning to a query.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/llm/embed.h"

namespace anyaccel::llm {

/// Consecutive lines of a file.
struct Passage {
  std::filesystem::path file;
  std::int64_t line = 0;  ///< 1-based line number where the passage begins
  std::string text;
};

/// Read the passages of all text files in a folder and its subfolders, in sorted order. Hidden
/// files and files that contain NUL bytes are skipped. A passage ends at an empty line, or after
/// the line at which its size reaches `max_bytes`. Throws `not_found`, `io`, or `invalid_argument`
/// if `max_bytes` is 0.
ANYACCEL_API std::vector<Passage> read_passages(const std::filesystem::path& folder,
                                                std::size_t max_bytes = 800);

/// A row that nearest() found.
struct SearchHit {
  std::size_t index = 0;  ///< index of the row
  double score = 0;       ///< cosine similarity to the query
};

/// Return the `top` rows of `vectors`, [rows, dimension], with the greatest cosine similarity to
/// `query`, [dimension], in descending order; ties are sorted by index. A zero vector has
/// similarity 0, and rows with NaN come last. Throws `invalid_argument` if the shapes do not match
/// or `top` is below 1.
ANYACCEL_API std::vector<SearchHit> nearest(const at::Tensor& vectors, const at::Tensor& query,
                                            std::int64_t top);

}  // namespace anyaccel::llm

// Finding the passages of a text folder that are nearest in meaning to a question.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "anyaccel/llm/embed.h"

namespace anyaccel::llm {

/// Lines of a file that belong together.
struct Passage {
  std::filesystem::path file;
  std::int64_t line = 0;  ///< where it begins, from 1
  std::string text;
};

/// The passages of all text files below a folder, in sorted order; hidden files and those with zero
/// bytes are left out. Empty lines end a passage, and so does the line after which it has
/// `max_bytes` or more. Throws `not_found`, `io`, or `invalid_argument` when `max_bytes` is 0.
ANYACCEL_API std::vector<Passage> read_passages(const std::filesystem::path& folder,
                                                std::size_t max_bytes = 800);

/// One of the rows that were asked for.
struct SearchHit {
  std::size_t index = 0;  ///< of the row
  double score = 0;       ///< cosine of the angle to the query
};

/// The `top` rows of `vectors`, [rows, dimension], with the greatest cosine to `query`,
/// [dimension]; the greatest first, of equal ones the first row. A vector of zeros has the cosine
/// 0, one with values that are no numbers comes last. Throws `invalid_argument` when shapes do not
/// fit or `top` is below 1.
ANYACCEL_API std::vector<SearchHit> nearest(const at::Tensor& vectors, const at::Tensor& query,
                                            std::int64_t top);

}  // namespace anyaccel::llm

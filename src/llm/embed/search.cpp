#include "anyaccel/llm/search.h"

#include <ATen/ops/mv.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "anyaccel/error.h"
#include "llm/data/files.h"
#include "llm/embed/pooling.h"

namespace anyaccel::llm {

namespace {

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r\f\v") == std::string::npos;
}

void add_passages(const std::filesystem::path& file, const std::string& text, std::size_t max_bytes,
                  std::vector<Passage>& out) {
  Passage passage{.file = file, .line = 0, .text = {}};
  const auto end = [&] {
    if (!passage.text.empty()) out.push_back(passage);
    passage.text.clear();
  };
  std::istringstream lines(text);
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (is_blank(line)) {
      end();
      continue;
    }
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (passage.text.empty()) {
      passage.line = number;
    } else {
      passage.text += '\n';
    }
    passage.text += line;
    if (passage.text.size() >= max_bytes) end();
  }
  end();
}

}  // namespace

std::vector<Passage> read_passages(const std::filesystem::path& folder, std::size_t max_bytes) {
  if (max_bytes == 0) {
    throw Error(ErrorCode::invalid_argument, "read_passages",
                {.what = "max_bytes is 0", .want = "1 or more"});
  }
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw Error(ErrorCode::not_found, "read_passages",
                {.what = "cannot find the folder to search",
                 .got = folder.string(),
                 .want = "a folder with text files"});
  }
  std::vector<Passage> out;
  for (const auto& file : files_below(folder)) {
    if (const auto text = read_text(file)) add_passages(file, *text, max_bytes, out);
  }
  return out;
}

std::vector<SearchHit> nearest(const at::Tensor& vectors, const at::Tensor& query,
                               std::int64_t top) {
  if (vectors.dim() != 2 || query.dim() != 1 || vectors.size(1) != query.size(0) || top < 1) {
    std::ostringstream got;
    got << "vectors " << vectors.sizes() << ", query " << query.sizes() << ", top " << top;
    throw Error(ErrorCode::invalid_argument, "nearest",
                {.what = "cannot compare the query with the vectors",
                 .got = got.str(),
                 .want = "vectors [rows, dimension], query [dimension], top 1 or more"});
  }
  const auto host = [](const at::Tensor& rows) {
    return normalize_rows(rows.to(c10::Device(c10::kCPU), c10::kFloat));
  };
  const at::Tensor scores = at::mv(host(vectors), host(query.unsqueeze(0)).squeeze(0)).contiguous();
  const float* score = scores.const_data_ptr<float>();
  std::vector<std::size_t> order(static_cast<std::size_t>(vectors.size(0)));
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto count =
      static_cast<std::ptrdiff_t>(std::min(static_cast<std::int64_t>(order.size()), top));
  // Rank NaN scores last. Broken models produce them, and comparisons with NaN would break the
  // sort.
  const auto rank = [&](std::size_t row) { return std::isnan(score[row]) ? -2.0F : score[row]; };
  std::partial_sort(
      order.begin(), order.begin() + count, order.end(),
      [&](std::size_t a, std::size_t b) { return rank(a) != rank(b) ? rank(a) > rank(b) : a < b; });
  std::vector<SearchHit> hits;
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const std::size_t index = order[static_cast<std::size_t>(i)];
    hits.push_back({.index = index, .score = score[index]});
  }
  return hits;
}

}  // namespace anyaccel::llm

#include "anyaccel/llm/search.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

// Fails if a passage has the wrong file or line, text is lost, or hidden or binary files are read.
TEST(Search, Passages) {
  const TemporaryFolder folder;
  folder.write("b.txt", "\n\none\r\ntwo\n \t\nthree");
  folder.write("a/x.md", "first\nsecond\nthird\n");
  folder.write(".hidden", "no");
  folder.write("binary", std::string("no\0", 3));
  folder.write("empty", "");
  std::vector<Passage> got = read_passages(folder.path());
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0].file, folder / "a/x.md");
  EXPECT_EQ(got[0].text, "first\nsecond\nthird");
  EXPECT_EQ(got[1].line, 3);
  EXPECT_EQ(got[1].text, "one\ntwo");
  EXPECT_EQ(got[2].line, 6);
  EXPECT_EQ(got[2].text, "three");
  got = read_passages(folder.path(), 10);
  ASSERT_EQ(got.size(), 4U);
  EXPECT_EQ(got[0].text, "first\nsecond");
  EXPECT_EQ(got[1].text, "third");
  EXPECT_EQ(got[1].line, 3);
  EXPECT_ERROR(read_passages(folder / "none"), not_found, "cannot find the folder to search");
  EXPECT_ERROR(read_passages(folder.path(), 0), invalid_argument, "max_bytes");
}

// Fails if rows are not ranked by cosine similarity, or NaN ranks first. Also fails if a wrong
// shape is accepted.
TEST(Search, Nearest) {
  const at::Tensor rows =
      at::tensor({0.0F, 1.0F, 100.0F, 100.0F, 0.0F, 0.0F, 1.0F, 0.0F, 2.0F, 0.0F}).view({5, 2});
  const auto hits = nearest(rows, at::tensor({3.0F, 0.0F}), 3);
  ASSERT_EQ(hits.size(), 3U);
  EXPECT_EQ(hits[0].index, 3U);
  EXPECT_NEAR(hits[0].score, 1.0, 1e-6);
  EXPECT_EQ(hits[1].index, 4U);
  EXPECT_EQ(hits[2].index, 1U);
  EXPECT_NEAR(hits[2].score, std::sqrt(0.5), 1e-6);
  EXPECT_EQ(nearest(rows, at::tensor({3.0F, 0.0F}), 99).size(), 5U);
  const float nan = std::nanf("");
  EXPECT_EQ(
      nearest(at::tensor({nan, nan, -1.0F, 0.0F}).view({2, 2}), at::tensor({3.0F, 0.0F}), 2)[0]
          .index,
      1U);
  EXPECT_TRUE(nearest(at::zeros({0, 2}), at::tensor({3.0F, 0.0F}), 1).empty());
  EXPECT_ERROR(nearest(rows, at::tensor({3.0F}), 3), invalid_argument,
               "vectors [5, 2], query [1], top 3");
  EXPECT_ERROR(nearest(rows, at::tensor({3.0F, 0.0F}), 0), invalid_argument, "top 0");
}

}  // namespace
}  // namespace anyaccel::llm

#include "launch/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>
#include <algorithm>
#include <map>
#include <set>

#include "anyaccel/error.h"
#include "base/file.h"
#include "test_paths.h"
#include "unit/support/saved_machine.h"

namespace anyaccel::launch {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using PictureTest = test::SavedMachineTest;

bool contains(const Box& outer, const Box& inner) {
  return outer.x <= inner.x && outer.y <= inner.y &&
         inner.x + inner.width <= outer.x + outer.width &&
         inner.y + inner.height <= outer.y + outer.height;
}

bool apart(const Box& a, const Box& b) {
  return a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y ||
         b.y + b.height <= a.y;
}

std::vector<Box> of_kind(const Picture& picture, const std::string& kind) {
  std::vector<Box> found;
  for (const auto& box : picture.boxes)
    if (box.kind == kind) found.push_back(box);
  return found;
}

// Fails if a CPU, core or package is missing from the picture, or a box overlaps another box or is
// not inside its parent.
TEST_F(PictureTest, BoxesAreCompleteAndDoNotOverlap) {
  for (const auto& entry : std::filesystem::directory_iterator(
           std::filesystem::path(ANYACCEL_TEST_DATA) / "topologies")) {
    if (entry.path().extension() != ".xml") continue;
    SCOPED_TRACE(entry.path().stem());
    const auto machine = topology::read_machine(entry.path());
    const auto plan = plan_host(machine, {});
    const auto picture = draw(machine, &plan);
    const Box all{0, 0, picture.width, picture.height};
    for (const auto& box : picture.boxes) EXPECT_TRUE(contains(all, box)) << box.kind;
    for (const auto& label : picture.labels) EXPECT_LT(label.y, picture.height) << label.text;
    for (const auto* const kind : {"package", "node", "memory", "core", "pu", "rank"}) {
      const auto boxes = of_kind(picture, kind);
      for (std::size_t i = 0; i < boxes.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) ASSERT_TRUE(apart(boxes[i], boxes[j])) << kind;
    }
    EXPECT_EQ(of_kind(picture, "pu").size(), machine.cpus().size());
    EXPECT_EQ(of_kind(picture, "core").size(), machine.cores.size());
    EXPECT_EQ(of_kind(picture, "package").size(),
              static_cast<std::size_t>(topology::package_count(machine)));
    const auto without = std::count_if(machine.nodes.begin(), machine.nodes.end(),
                                       [](const auto& n) { return n.cpus.empty(); });
    EXPECT_EQ(of_kind(picture, "memory").size(), static_cast<std::size_t>(without));
    const std::pair<const char*, const char*> inside[] = {
        {"pu", "core"}, {"core", "node"}, {"node", "package"}};
    for (const auto& [inner, outer] : inside) {
      const auto holders = of_kind(picture, outer);
      for (const auto& box : of_kind(picture, inner))
        EXPECT_TRUE(std::any_of(holders.begin(), holders.end(), [&](const Box& h) {
          return contains(h, box);
        })) << inner;
    }
  }
}

// Fails if a CPU does not have the color of its rank, or an unused CPU has a rank's color.
TEST_F(PictureTest, CpusHaveTheColorOfTheirRank) {
  const auto machine = saved("two_nodes_siblings_adjacent");
  const auto plan = plan_host(machine, {.ranks = 2, .reserve_cores = 2});
  const auto picture = draw(machine, &plan);
  std::map<Colour, int> counts;
  for (const auto& box : of_kind(picture, "pu")) ++counts[box.fill];
  EXPECT_EQ(counts[rank_colour(0)], 3);
  EXPECT_EQ(counts[rank_colour(1)], 3);
  EXPECT_EQ(counts.size(), 4u);  // two ranks, and the colors of reserved and unused CPUs
  counts.clear();
  for (const auto& box : of_kind(draw(machine), "pu")) ++counts[box.fill];
  EXPECT_EQ(counts.size(), 1u);
}

// Fails if two ranks have the same color.
TEST(Picture, RankColorsDiffer) {
  std::set<Colour> seen;
  for (int rank = 0; rank < 32; ++rank) seen.insert(rank_colour(rank));
  EXPECT_EQ(seen.size(), 32u);
}

// Fails if text from the firmware is not escaped in SVG.
TEST(Picture, SvgIsEscaped) {
  topology::Machine machine;
  machine.cpu_model = "A<B> & \"C\" \x01\xff";
  machine.cores.push_back({.package = 0, .node = -1, .cpus = {0}});
  const auto svg = to_svg(draw(machine));
  EXPECT_THAT(svg, StartsWith("<?xml version=\"1.0\""));
  EXPECT_THAT(svg, HasSubstr(">A&lt;B&gt; &amp; \"C\" ?\?</text>"));
  EXPECT_THAT(svg, HasSubstr("class=\"pu\""));
}

// Fails if an unsupported file format is accepted, or a PNG is invalid or has the wrong size.
TEST(Picture, Files) {
  topology::Machine machine;
  machine.cores.push_back({.package = 0, .node = -1, .cpus = {0}});
  const auto picture = draw(machine);
  EXPECT_THROW(write_picture(picture, "/tmp/picture.jpg"), Error);
  EXPECT_THROW(write_picture(picture, "/nonexistent/picture.svg"), Error);
  const auto file = std::filesystem::temp_directory_path() /
                    ("anyaccel-picture-" + std::to_string(::getpid()) + ".svg");
  write_picture(picture, file);
  EXPECT_EQ(read_file(file), to_svg(picture));
  std::filesystem::remove(file);
  std::string png;
  try {
    png = to_png(picture);
  } catch (const Error& error) {
    EXPECT_TRUE(error.code() == ErrorCode::unsupported || error.code() == ErrorCode::unavailable);
    GTEST_SKIP() << error.what();
  }
  ASSERT_THAT(png, StartsWith("\x89PNG\r\n"));
  const auto number = [&](std::size_t at) {
    int value = 0;
    for (std::size_t i = at; i < at + 4; ++i)
      value = value * 256 + static_cast<unsigned char>(png[i]);
    return value;
  };
  EXPECT_EQ(number(16), 2 * picture.width);
  EXPECT_EQ(number(20), 2 * picture.height);
}

}  // namespace
}  // namespace anyaccel::launch

#include "llm/checkpoint/checkpoint.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

void write(const std::filesystem::path& path, const char* name, at::IntArrayRef shape) {
  AtomicFile file(path);
  write_safetensors(file, {{name, at::ones(shape)}}, {});
  file.commit();
}

// Fails if a tensor is read from the wrong shard, or the error about a wrong shape does not contain
// both shapes.
TEST(Checkpoint, Shards) {
  const TemporaryFolder folder;
  write(folder / "one.safetensors", "a", {2, 3});
  write(folder / "two.safetensors", "b", {4});
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  const Checkpoint checkpoint(folder.path());
  EXPECT_EQ(checkpoint.tensor("a", {2, 3}).numel(), 6);
  EXPECT_EQ(checkpoint.tensor("b", {4}).numel(), 4);
  EXPECT_ERROR(checkpoint.tensor("a", {3, 2}), corrupt,
               "tensor \"a\" has the wrong shape; got [2, 3], want [3, 2]");
  EXPECT_ERROR(checkpoint.tensor("c", {1}), corrupt, "lacks tensor \"c\"");
}

// Fails if an index may refer to files outside its folder, or to tensors that are not in the given
// shard.
TEST(Checkpoint, BadIndex) {
  const TemporaryFolder folder;
  write(folder / "one.safetensors", "a", {2});
  for (const char* name : {"../one.safetensors", "/etc/passwd", "..", ".", ""}) {
    folder.write("model.safetensors.index.json",
                 R"({"weight_map":{"a":")" + std::string(name) + "\"}}");
    EXPECT_ERROR(Checkpoint(folder.path()), corrupt, "invalid file name");
  }
  folder.write("model.safetensors.index.json", R"({"weight_map":{"b":"one.safetensors"}})");
  EXPECT_ERROR(Checkpoint(folder.path()), corrupt, "lacks tensor \"b\"");
  folder.write("model.safetensors.index.json", R"({"weight_map":{"b":"gone.safetensors"}})");
  EXPECT_ERROR(Checkpoint(folder.path()), not_found, "gone.safetensors");
}

// Fails if integers are accepted as weights, or a tensor's name is printed without escaping.
TEST(Checkpoint, WeightsAreFloats) {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder / "model.safetensors");
    write_safetensors(file, {{"a", at::ones({2}, c10::kInt)}, {"b\x1b", at::ones({2}, c10::kHalf)}},
                      {});
    file.commit();
  }
  const Checkpoint checkpoint(folder.path());
  EXPECT_EQ(checkpoint.tensor("a", {2}).scalar_type(), c10::kInt);
  EXPECT_ERROR(
      checkpoint.floats("a", {2}), corrupt,
      "model.safetensors: tensor \"a\" has the wrong dtype; got I32, want a floating-point dtype");
  EXPECT_EQ(checkpoint.floats("b\x1b", {2}).scalar_type(), c10::kHalf);
  EXPECT_ERROR(checkpoint.floats("b\x1b", {3}), corrupt, "tensor \"b\\x1b\" has the wrong shape");
  EXPECT_ERROR(checkpoint.floats("a", std::vector<std::int64_t>(1000, 1)), corrupt,
               "1, ... (1000 numbers)]");
}

// Fails if the error about a folder without weights does not name the folder or the expected files.
TEST(Checkpoint, NoWeights) {
  const TemporaryFolder folder;
  EXPECT_ERROR(Checkpoint(folder.path()), not_found, "model.safetensors");
  EXPECT_ERROR(Checkpoint(folder / "none"), not_found, "none is not a folder");
}

}  // namespace
}  // namespace anyaccel::llm

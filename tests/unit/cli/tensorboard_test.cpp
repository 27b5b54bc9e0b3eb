#include "cli/commands/train/tensorboard.h"

#include <gtest/gtest.h>

namespace anyaccel::cli {
namespace {

std::string hex(const std::string& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    out += kDigits[static_cast<unsigned char>(c) >> 4];
    out += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return out;
}

// Fails if the length, the data or a checksum of a record is wrong. The expected bytes were written
// by TensorFlow's record writer.
TEST(Tensorboard, Record) { EXPECT_EQ(hex(tf_record("")), "000000000000000029039807d8ea82a2"); }

// Fails if a field of an event has the wrong number, type or value. The expected bytes follow from
// the definitions of tensorflow.Event and tensorflow.Summary.
TEST(Tensorboard, Events) {
  EXPECT_EQ(hex(version_event(1.0)), "09000000000000f03f10001a0d627261696e2e4576656e743a32");
  EXPECT_EQ(hex(scalar_event(1.0, 300, {{"a", 2.0}, {"b/c", -0.5}})),
            "09000000000000f03f10ac022a16"
            "0a080a0161150000"
            "00400a0a0a03622f6315000000bf");
  EXPECT_EQ(hex(start_event(1.0, 5)), "09000000000000f03f10053a020801");
}

}  // namespace
}  // namespace anyaccel::cli

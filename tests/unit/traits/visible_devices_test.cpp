// Tests the parsing of CUDA_VISIBLE_DEVICES.
#include "backends/cuda/visible_devices.h"

#include <gtest/gtest.h>

#include <random>

namespace anyaccel::backends::cuda {
namespace {

using Devices = std::vector<VisibleDevice>;

const std::vector<PhysicalDevice> kPlain{
    {.uuid = "GPU-aaaa0000-1111"}, {.uuid = "GPU-bbbb0000-2222"}, {.uuid = "GPU-bbbb1111-3333"}};
const std::vector<PhysicalDevice> kMixed{
    {.uuid = "GPU-aaaa0000-1111",
     .mig = true,
     .instances = {{"MIG-1111-aa", 1, 0}, {"MIG-1111-bb", 2, 0}}},
    {.uuid = "GPU-bbbb0000-2222"},
    {.uuid = "GPU-cccc0000-3333", .mig = true}};

Devices plain(const char* value) { return visible_devices(value, kPlain); }

// Fails if an unset variable hides devices, or an empty one does not hide all of them.
TEST(VisibleDevices, UnsetIsAllEmptyIsNone) {
  EXPECT_EQ(visible_devices(std::nullopt, kPlain), (Devices{{0}, {1}, {2}}));
  EXPECT_EQ(plain(""), Devices{});
}

// Fails if the order of indices is ignored. Memory would then be read from the wrong device.
TEST(VisibleDevices, IndicesInOrder) {
  EXPECT_EQ(plain("2,0"), (Devices{{2}, {0}}));
  EXPECT_EQ(plain(" 1 , 2 "), (Devices{{1}, {2}}));
  EXPECT_EQ(plain("1gpu2,2"), (Devices{{1}, {2}}));  // CUDA parses numbers like strtoul()
  EXPECT_EQ(plain("+1"), (Devices{{1}}));
}

// Fails if parsing continues after an invalid entry. CUDA ignores all entries after it.
TEST(VisibleDevices, EndsAtTheFirstInvalidEntry) {
  EXPECT_EQ(plain("0,-1,1"), (Devices{{0}}));
  EXPECT_EQ(plain("-1"), Devices{});
  EXPECT_EQ(plain("0,7,1"), (Devices{{0}}));
  EXPECT_EQ(plain("0,,1"), (Devices{{0}}));
  EXPECT_EQ(plain("NoDevFiles"), Devices{});
  EXPECT_EQ(plain("99999999999999999999"), Devices{});
}

// Fails if any device is visible when the list contains a device twice. CUDA then hides all
// devices.
TEST(VisibleDevices, RepeatedEntriesHideAll) {
  EXPECT_EQ(plain("0,1,0"), Devices{});
  EXPECT_EQ(plain("GPU-aaaa,0"), Devices{});
}

// Fails if a full or abbreviated UUID is not accepted, or an ambiguous one selects a device.
TEST(VisibleDevices, Uuids) {
  EXPECT_EQ(plain("GPU-bbbb1111-3333,GPU-aaaa"), (Devices{{2}, {0}}));
  EXPECT_EQ(plain("gpu-AAAA0000"), (Devices{{0}}));
  EXPECT_EQ(plain("GPU-bbbb"), Devices{});
  EXPECT_EQ(plain("GPU-aaaa,GPU-bbbb,GPU-bbbb1111"), (Devices{{0}}));
}

// Fails if a device in MIG mode is listed instead of a MIG instance, or more than one of its
// instances is listed.
TEST(VisibleDevices, Mig) {
  EXPECT_EQ(visible_devices("MIG-1111-bb", kMixed), (Devices{{0, 1}}));
  EXPECT_EQ(visible_devices("MIG-GPU-aaaa0000-1111/2/0", kMixed), (Devices{{0, 1}}));
  EXPECT_EQ(visible_devices("MIG-GPU-aaaa0000-1111/9/0", kMixed), Devices{});
  EXPECT_EQ(visible_devices("MIG-GPU-aaaa0000-1111/2", kMixed), Devices{});
  EXPECT_EQ(visible_devices("MIG-1111", kMixed), Devices{});  // ambiguous
  EXPECT_EQ(visible_devices("0", kMixed), (Devices{{0, 0}}));
  EXPECT_EQ(visible_devices("2", kMixed), Devices{});  // in MIG mode, but without an instance
  EXPECT_EQ(visible_devices("MIG-1111-aa,MIG-1111-bb", kMixed), (Devices{{0, 0}}));
  EXPECT_EQ(visible_devices(std::nullopt, kMixed), (Devices{{0, 0}}));
  EXPECT_EQ(visible_devices("1", kMixed), (Devices{{1}}));
}

// Fails if malformed or long text crashes the parser, or yields a device that does not exist.
TEST(VisibleDevices, AnyTextIsSafe) {
  std::mt19937 random(1);
  const std::string alphabet = "0123456789,-+ /GPUMIGabcf\t\n\xff";
  for (int round = 0; round < 20000; ++round) {
    std::string text(random() % 40, ' ');
    for (auto& c : text) c = alphabet[random() % alphabet.size()];
    for (const auto& device : visible_devices(text, kMixed)) {
      ASSERT_GE(device.physical, 0);
      ASSERT_LT(static_cast<std::size_t>(device.physical), kMixed.size());
    }
  }
  EXPECT_EQ(plain(std::string(1 << 20, ',').c_str()), Devices{});
}

}  // namespace
}  // namespace anyaccel::backends::cuda

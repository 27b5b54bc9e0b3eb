#include "llm/checkpoint/safetensors.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "unit/llm/temporary_folder.h"
#include "unit/support/expect_error.h"

namespace anyaccel::llm {
namespace {

std::string with_header(const std::string& header, std::size_t values) {
  std::string out(8, '\0');
  for (int i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> 8 * i & 0xff);
  return out + header + std::string(values, 'x');
}

const char* kOne = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

// Fails if a dtype, a shape or the metadata does not survive a round-trip.
TEST(Safetensors, RoundTrip) {
  const TemporaryFolder folder;
  NamedTensors tensors;
  for (const auto dtype : {c10::kFloat, c10::kBFloat16, c10::kHalf, c10::kDouble, c10::kLong,
                           c10::kByte, c10::kBool}) {
    tensors.emplace_back(c10::toString(dtype), at::arange(6).reshape({2, 3}).to(dtype));
  }
  tensors.emplace_back("scalar", at::zeros({}));
  tensors.emplace_back("none", at::zeros({0, 4}));
  tensors.emplace_back("transposed", at::arange(6).reshape({2, 3}).t());
  AtomicFile out(folder / "t.safetensors");
  write_safetensors(out, tensors, {{"format", "pt"}});
  out.commit();
  const SafetensorsFile file(folder / "t.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.entries().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(file.tensor(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(file.tensor(name).sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(at::equal(file.tensor(name), tensor)) << name;
  }
  EXPECT_ERROR(file.tensor("other"), not_found, "other");
}

// Fails if tensors that do not match the header, or too few of them, result in a file, or if
// releasing pages changes values.
TEST(Safetensors, OneTensorAtATime) {
  const TemporaryFolder folder;
  AtomicFile out(folder / "t.safetensors");
  SafetensorsWriter writer(out, {{"a", c10::kFloat, {2, 3}}, {"b", c10::kLong, {}}}, {});
  const at::Tensor values = at::arange(6, c10::kFloat).reshape({2, 3});
  EXPECT_ERROR(writer.write(values.t()), internal, "tensor 0");
  EXPECT_ERROR(writer.write(values.to(c10::kDouble)), internal, "tensor 0");
  writer.write(values);
  EXPECT_ERROR(writer.finish(), internal, "tensor b is missing");
  writer.write(at::zeros({}, c10::kLong));
  writer.finish();
  EXPECT_ERROR(writer.write(values), internal, "tensor 2");
  out.commit();
  const SafetensorsFile file(folder / "t.safetensors");
  const at::Tensor read = file.tensor("a");
  EXPECT_TRUE(at::equal(read, values));
  file.release();
  EXPECT_TRUE(at::equal(read, values));
}

// Fails if a header of odd length causes misaligned reads, which are undefined behavior.
TEST(Safetensors, UnpaddedHeader) {
  const TemporaryFolder folder;
  for (int spaces = 0; spaces < 4; ++spaces) {
    const auto path =
        folder.write("u.safetensors", with_header(kOne + std::string(spaces, ' '), 8));
    const at::Tensor tensor = SafetensorsFile(path).tensor("a");
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr()) % 4, 0U);
    EXPECT_EQ(tensor.view(c10::kByte)[7].item<int>(), 'x');
  }
}

// Fails if a length, offset or shape in the file is used without validation.
TEST(Safetensors, DamagedFiles) {
  const TemporaryFolder folder;
  const auto expect_corrupt = [&](const std::string& content, const char* text) {
    const auto path = folder.write("bad.safetensors", content);
    EXPECT_ERROR(SafetensorsFile(path), corrupt, text);
    EXPECT_ERROR(SafetensorsFile(path), corrupt, path.string());
  };
  expect_corrupt("", "too short");
  expect_corrupt(std::string(8, '\xff'), "header does not fit");
  expect_corrupt(with_header(kOne, 7), "wrong length");
  expect_corrupt(with_header(kOne, 9), "wrong length");
  expect_corrupt(with_header("[1]", 0), "not a JSON object");
  expect_corrupt(with_header("{\"a\":", 0), "not valid JSON");
  expect_corrupt(with_header(std::string(50, '['), 0), "too deep");
  expect_corrupt(with_header(R"({"a":3})", 0), "malformed");
  expect_corrupt(with_header(R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8),
                 "F31");
  expect_corrupt(with_header(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8),
                 "invalid shape");
  expect_corrupt(with_header(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
                 "12 bytes");
  expect_corrupt(with_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
                 "offsets");
  expect_corrupt(
      with_header(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
                  0),
      "shape whose size overflows");
  expect_corrupt(with_header(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
                             6),
                 "overlaps");
  expect_corrupt(with_header(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})", 4),
                 "unused bytes");
  expect_corrupt(with_header(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                             R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                             0),
                 "twice");
}

// Fails if a missing file is reported as damaged.
TEST(Safetensors, MissingFile) {
  EXPECT_ERROR(SafetensorsFile("/nowhere/x"), not_found, "/nowhere/x");
}

}  // namespace
}  // namespace anyaccel::llm

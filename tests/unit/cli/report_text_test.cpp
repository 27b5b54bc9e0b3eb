#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/commands/report/report.h"

namespace anyaccel::cli {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

Json device(int index, bool half) {
  const Json yes{{"storable", true}, {"computable", true}, {"fast", true}, {"reducible", true}};
  const Json maybe{{"storable", true}, {"computable", half}, {"fast", half}, {"reducible", half}};
  return {{"index", index},
          {"name", "Model X"},
          {"uuid", "id-7"},
          {"driver_version", ""},
          {"multi_processor_count", 132},
          {"numa_node", nullptr},
          {"capability", {9, 0}},
          {"total_memory", 3LL << 30},
          {"available_memory", 512},
          {"dtypes", {{"float32", yes}, {"float16", maybe}}}};
}

Json report() {
  Json out = Json::parse(R"({
    "accelerator": "x", "reason": "the only one", "communication_backend": "c", "compile_backend": null,
    "backends": [{"name": "x", "verdict": "available", "reason": "two devices", "device_count": 2},
                 {"name": "other", "verdict": "unavailable", "reason": "none", "device_count": 0}],
    "versions": {"anyaccel": "1.2.3", "libtorch_accelerator": null}, "problems": [],
    "op_builders": [{"class_name": "AdamBuilder", "compatible": false, "reason": "no compiler"}],
    "host": {"instruction_set": "AVX2", "threads": 1},
    "topology": {"cpu_model": "CPU", "packages": 1, "cores": 2, "cpus": "0-1", "nodes": []},
    "memory": {"rss": 1048576, "limits": {"address_space": null, "data": null, "locked": 65536, "stack": 8388608,
               "control_group": null}},
    "shared_memory": {"path": "/dev/shm", "total": null, "free": null}, "environment": {}})");
  out["devices"] = {device(0, true), device(1, true)};
  return out;
}

// Fails if a known property of a device is missing, or a property without a known value is printed
// as a number.
TEST(ReportText, DeviceLine) {
  const std::string text = report_text(report(), 140);
  EXPECT_THAT(
      text,
      HasSubstr(
          "0  Model X, capability 9.0, 132 compute units, id id-7, 3.0 GiB memory, 512 B free\n"));
  EXPECT_THAT(text, Not(HasSubstr("NUMA node null")));
  EXPECT_THAT(text, HasSubstr("/dev/shm unknown, unknown free"));
  EXPECT_THAT(text, HasSubstr("locked 64.0 KiB, stack 8.0 MiB, control group unlimited"));
}

// Fails if a null version is not printed as "none".
TEST(ReportText, MissingVersion) {
  EXPECT_THAT(report_text(report(), 100), ContainsRegex("libtorch_accelerator +none\n"));
}

// Fails if the selected backend is not marked, or another backend is.
TEST(ReportText, MarksTheChosenBackend) {
  const std::string text = report_text(report(), 100);
  EXPECT_THAT(text, ContainsRegex("\n[*]  x  +available +2 +two devices\n"));
  EXPECT_THAT(text, ContainsRegex("\n   other +unavailable +0 +none\n"));
}

// Fails if devices with different dtypes share a table of dtypes, or devices with the same dtypes
// have separate tables.
TEST(ReportText, DtypesOfDifferentDevices) {
  Json one = report();
  EXPECT_THAT(report_text(one, 100), Not(HasSubstr("Data types of device 1")));
  one["devices"][1] = device(1, false);
  const std::string text = report_text(one, 100);
  EXPECT_THAT(
      text,
      ContainsRegex(
          "Data types of device 1\n.*\n  float32 +yes +yes +yes +yes\n  float16 +yes +- +- +-\n"));
}

// Fails if a missing value aborts the report instead of being printed as unknown.
TEST(ReportText, MissingValuesAndProblems) {
  Json one = report();
  one["devices"][0]["total_memory"] = nullptr;
  one["devices"][0]["dtypes"] = nullptr;
  one["op_builders"] = nullptr;
  one["problems"] = {"[total_memory] refused"};
  const std::string text = report_text(one, 100);
  EXPECT_THAT(text, HasSubstr("unknown memory"));
  EXPECT_THAT(text, HasSubstr("Problems\n  [total_memory] refused\n"));
}

// Fails if nothing is printed on a machine without an accelerator.
TEST(ReportText, WithoutAccelerator) {
  Json one = report();
  for (const char* key : {"devices", "communication_backend", "compile_backend", "op_builders"})
    one.erase(key);
  one["accelerator"] = nullptr;
  const std::string text = report_text(one, 100);
  EXPECT_THAT(text, HasSubstr("accelerator  none\nreason       the only one\n"));
  EXPECT_THAT(text, Not(HasSubstr("Devices")));
}

// Fails if the reason for the communication backend is missing, or a row is printed for an empty
// reason.
TEST(ReportText, ReasonForTheCommunicationBackend) {
  Json one = report();
  EXPECT_THAT(report_text(one, 100), Not(HasSubstr("because")));
  one["communication_backend_reason"] = "gloo, because so";
  EXPECT_THAT(report_text(one, 100),
              ContainsRegex("communication +c\n *because +gloo, because so\n"));
}

// Fails if a long reason exceeds the line width or loses words.
TEST(ReportText, WrapsLongReasons) {
  Json one = report();
  std::string reason;
  for (int i = 0; i < 80; ++i) reason += "word" + std::to_string(i) + " ";
  one["reason"] = reason;
  const std::string text = report_text(one, 80);
  std::istringstream lines(text.substr(0, text.find("\n\n")));
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80U) << line;
    EXPECT_NE(line.back(), ' ') << line;
  }
  for (int i = 0; i < 80; ++i)
    EXPECT_THAT(text, ContainsRegex("word" + std::to_string(i) + "[ \n]"));
}

}  // namespace
}  // namespace anyaccel::cli

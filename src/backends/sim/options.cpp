#include "backends/sim/options.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "anyaccel/error.h"
#include "backends/sim/faults.h"
#include "base/built_traits.h"
#include "base/env.h"
#include "base/untrusted_text.h"

namespace anyaccel::backends::sim {

namespace {

constexpr int kMaxDevices = 16;
constexpr std::int64_t kLeastMemory = 1 << 20;
constexpr std::int64_t kMaxMemory = 1LL << 42;
constexpr std::uint64_t kMaxSeed = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void fail(const char* where, const std::string& what, const std::string& got,
                       const std::string& want) {
  throw Error(ErrorCode::invalid_argument, where,
              {.what = what, .got = quoted_text(got), .want = want});
}

template <typename Integer>
Integer read_integer(const char* where, const std::string& text, Integer low, Integer high) {
  Integer number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < low || number > high)
    fail(where, "invalid number", text, std::to_string(low) + " to " + std::to_string(high));
  return number;
}

struct Amount {
  double number = 0;
  std::string unit;
};

/// Parses "12.5GiB" as 12.5 and "GiB"; nullopt if the text does not begin with a number.
std::optional<Amount> read_amount(const std::string& text) {
  Amount amount;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, amount.number);
  if (error != std::errc()) return std::nullopt;
  amount.unit.assign(stop, end);
  return amount;
}

std::int64_t read_bytes(const char* where, const std::string& text) {
  static const std::pair<const char*, int> kUnits[] = {
      {"", 0},     {"B", 0},  {"K", 10},  {"KB", 10},  {"KiB", 10}, {"M", 20},  {"MB", 20},
      {"MiB", 20}, {"G", 30}, {"GB", 30}, {"GiB", 30}, {"T", 40},   {"TB", 40}, {"TiB", 40}};
  if (const auto amount = read_amount(text); amount && amount->number > 0)
    for (const auto& [name, shift] : kUnits) {
      const double bytes = amount->number * static_cast<double>(1ULL << shift);
      if (amount->unit == name && bytes <= static_cast<double>(kMaxMemory))
        return static_cast<std::int64_t>(bytes);
    }
  fail(where, "invalid memory size", text,
       "a number above 0 with a unit (B, KiB, MiB, GiB or TiB), such as 512MiB, and at most 4TiB");
}

/// Parses Python's names for torch's dtypes, and short forms such as "fp32".
std::optional<c10::ScalarType> read_dtype(const std::string& name) {
  static const std::pair<const char*, c10::ScalarType> kNames[] = {
      {"float32", c10::kFloat},
      {"float", c10::kFloat},
      {"fp32", c10::kFloat},
      {"float64", c10::kDouble},
      {"double", c10::kDouble},
      {"fp64", c10::kDouble},
      {"float16", c10::kHalf},
      {"half", c10::kHalf},
      {"fp16", c10::kHalf},
      {"bfloat16", c10::kBFloat16},
      {"bf16", c10::kBFloat16},
      {"int8", c10::kChar},
      {"uint8", c10::kByte},
      {"int16", c10::kShort},
      {"int32", c10::kInt},
      {"int", c10::kInt},
      {"int64", c10::kLong},
      {"long", c10::kLong},
      {"bool", c10::kBool},
      {"complex64", c10::kComplexFloat},
      {"complex128", c10::kComplexDouble},
      {"uint16", c10::kUInt16},
      {"uint32", c10::kUInt32},
      {"uint64", c10::kUInt64},
      {"float8_e4m3fn", c10::kFloat8_e4m3fn},
      {"float8_e5m2", c10::kFloat8_e5m2}};
  for (const auto& [known, dtype] : kNames)
    if (name == known) return dtype;
  return std::nullopt;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream stream(text);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

}  // namespace

std::string visible_variable(const Options& options) {
  const auto name = options.stands_in_for.empty() ? std::string("sim") : options.stands_in_for;
  for (const auto* traits : built_traits())
    if (traits->name == name)
      return traits->visible_devices_envs.empty() ? "" : traits->visible_devices_envs.front();
  return "";
}

int visible_count(const Options& options) {
  return options.visible ? static_cast<int>(options.visible->size()) : options.devices;
}

std::string visible_text(const Options& options) {
  if (!options.visible) return "";
  return "; " + visible_variable(options) + " selects " + std::to_string(options.visible->size()) +
         " of " + std::to_string(options.devices) + " devices";
}

double read_microseconds(const char* where, const std::string& text) {
  const auto amount = read_amount(text);
  double scale = 0;
  if (amount && (amount->unit == "us" || amount->unit.empty())) scale = 1;
  if (amount && amount->unit == "ns") scale = 1e-3;
  if (amount && amount->unit == "ms") scale = 1e3;
  if (amount && amount->unit == "s") scale = 1e6;
  if (scale == 0 || amount->number < 0 || amount->number * scale > 60e6)
    fail(where, "invalid duration", text,
         "a number with a unit (ns, us, ms or s), such as 20us, and at most 60s");
  return amount->number * scale;
}

void check(const Options& options) {
  if (options.devices < 1 || options.devices > kMaxDevices)
    fail("SIM_DEVICES", "invalid number of devices", std::to_string(options.devices),
         "1 to " + std::to_string(kMaxDevices));
  if (options.visible && options.visible->empty())
    throw Error(ErrorCode::unavailable, "sim",
                {.what = "no simulated device is visible" + visible_text(options),
                 .want = "a list of indices below " + std::to_string(options.devices)});
  for (const int device : options.visible.value_or(std::vector<int>()))
    if (device < 0 || device >= options.devices ||
        std::count(options.visible->begin(), options.visible->end(), device) != 1)
      fail("sim", "invalid or repeated visible device", std::to_string(device),
           "indices below " + std::to_string(options.devices));
  if (options.memory < kLeastMemory || options.memory > kMaxMemory)
    fail("SIM_MEMORY", "invalid memory size", std::to_string(options.memory), "1MiB to 4TiB");
  if (!(options.latency_us >= 0 && options.latency_us <= 60e6))
    fail("SIM_LATENCY", "invalid duration", std::to_string(options.latency_us), "0 to 60s");
  if (!options.check.empty() && options.check != "report" && options.check != "abort")
    fail("SIM_CHECK", "unknown check mode", options.check, "report, abort, or off");
  dtype_bits(options);
  parse_faults(options.faults);
}

std::uint64_t dtype_bits(const Options& options) {
  if (options.dtypes.empty()) return std::numeric_limits<std::uint64_t>::max();
  std::uint64_t bits = 0;
  for (const auto& name : options.dtypes) {
    const auto dtype = read_dtype(name);
    if (!dtype)
      fail("SIM_DTYPES", "unknown dtype", name,
           "torch dtype names, such as float32,bfloat16,int64");
    bits |= 1ULL << static_cast<unsigned>(*dtype);
  }
  return bits;
}

void take_checks_from_environment(Options& options) {
  if (!options.check.empty()) return;
  options.check = env("SIM_CHECK").value_or("");
  if (options.check == "off" || options.check == "0") options.check.clear();
  options.check_json = env("SIM_CHECK_JSON").value_or("");
}

bool operator==(const Options& a, const Options& b) noexcept {
  return a.devices == b.devices && a.visible == b.visible && a.memory == b.memory &&
         a.dtypes == b.dtypes && a.latency_us == b.latency_us &&
         a.stands_in_for == b.stands_in_for && a.seed == b.seed && a.faults == b.faults &&
         a.check == b.check && a.check_json == b.check_json;
}

std::string device_type_name(const Options& options) {
  if (options.stands_in_for.empty()) return "sim";
  // A backend's name may differ from that of its device type.
  for (const auto* traits : built_traits())
    if (traits->name == options.stands_in_for) return traits->device_type;
  return options.stands_in_for;
}

}  // namespace anyaccel::backends::sim

namespace anyaccel::sim {

void set_option(Options& options, const std::string& variable, const std::string& value) {
  using namespace backends::sim;
  if (variable == "SIM_DEVICES")
    options.devices = read_integer<int>("SIM_DEVICES", value, 1, kMaxDevices);
  else if (variable == "SIM_MEMORY")
    options.memory = read_bytes("SIM_MEMORY", value);
  else if (variable == "SIM_DTYPES")
    options.dtypes = split(value);
  else if (variable == "SIM_LATENCY")
    options.latency_us = read_microseconds("SIM_LATENCY", value);
  else if (variable == "SIM_STANDS_IN_FOR")
    options.stands_in_for = value;
  else if (variable == "SIM_SEED")
    options.seed = read_integer<std::uint64_t>("SIM_SEED", value, 0, kMaxSeed);
  else if (variable == "SIM_FAULTS")
    options.faults = value;
  else
    fail("sim options", "unknown option", variable,
         "SIM_DEVICES, SIM_MEMORY, SIM_DTYPES, SIM_LATENCY, SIM_STANDS_IN_FOR, SIM_SEED or "
         "SIM_FAULTS");
}

Options options_from_environment() {
  using namespace backends::sim;
  Options options;
  for (const char* variable : {"SIM_DEVICES", "SIM_MEMORY", "SIM_DTYPES", "SIM_LATENCY",
                               "SIM_STANDS_IN_FOR", "SIM_SEED", "SIM_FAULTS"})
    if (const auto value = env(variable)) set_option(options, variable, *value);
  // Not env(), because an empty value hides all devices.
  if (const auto name = visible_variable(options); !name.empty())
    if (const char* list = std::getenv(name.c_str()))
      options.visible = select_devices(list, options.devices);
  take_checks_from_environment(options);
  if (visible_count(options) > 0) check(options);
  return options;
}

}  // namespace anyaccel::sim

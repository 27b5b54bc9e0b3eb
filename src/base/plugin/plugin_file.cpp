#include "base/plugin/plugin_file.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "anyaccel/error.h"
#include "base/device_files.h"
#include "base/trimmed.h"

namespace anyaccel {

namespace {

constexpr unsigned kFormat = 1;
constexpr const char* kWhere = "plugin file";

[[noreturn]] void fail(int line, const std::string& what, const std::string& got = {},
                       const std::string& want = {}) {
  throw Error(ErrorCode::corrupt, kWhere,
              {.what = (line > 0 ? "line " + std::to_string(line) + ": " : std::string()) + what,
               .got = got.empty() ? got : "'" + got + "'",
               .want = want});
}

/// Values must be printable, because error messages and reports contain them.
bool is_printable(std::string_view text) {
  return std::none_of(text.begin(), text.end(),
                      [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

std::vector<PluginLine> read_lines(std::string_view text) {
  std::vector<PluginLine> out;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    const auto line = trimmed(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (line.empty() || line.front() == '#') continue;
    const auto equals = line.find('=');
    if (!is_printable(line)) fail(number, "the line contains a control character");
    if (equals == std::string_view::npos) fail(number, "not `key = value`", std::string(line));
    out.push_back({number, std::string(trimmed(line.substr(0, equals))),
                   std::string(trimmed(line.substr(equals + 1)))});
  }
  return out;
}

int number_of(const PluginLine& line, int low, int high) {
  int value = 0;
  const char* end = line.value.data() + line.value.size();
  const auto [stop, error] = std::from_chars(line.value.data(), end, value);
  if (error != std::errc() || stop != end || value < low || value > high)
    fail(line.number, line.key + " is not a number in range", line.value,
         std::to_string(low) + " to " + std::to_string(high));
  return value;
}

bool flag_of(const PluginLine& line) {
  if (line.value == "true") return true;
  if (line.value != "false")
    fail(line.number, line.key + " is not a Boolean", line.value, "true or false");
  return false;
}

/// Parses `NAME | value | reason`.
sdk::EnvironmentSetting setting_of(const PluginLine& line) {
  const auto first = line.value.find('|');
  const auto second = first == std::string::npos ? first : line.value.find('|', first + 1);
  if (second == std::string::npos)
    fail(line.number, "wrong number of parts", line.value, "NAME | value | reason");
  const std::string_view all = line.value;
  sdk::EnvironmentSetting out{
      .name = std::string(trimmed(all.substr(0, first))),
      .value = std::string(trimmed(all.substr(first + 1, second - first - 1))),
      .reason = std::string(trimmed(all.substr(second + 1)))};
  if (out.name.empty() || out.name.find('=') != std::string::npos)
    fail(line.number, "not a variable name", out.name, "a name without =");
  return out;
}

/// Returns the line's path. Rejects paths that are absolute or contain "..".
std::string path_of(const PluginLine& line) {
  if (line.value.empty() || line.value.front() == '/' || line.value.find("..") != std::string::npos)
    fail(line.number, line.key + " is not a path below the root", line.value,
         "a relative path, such as dev");
  return line.value;
}

bool read_list(const PluginLine& line, sdk::Traits& traits) {
  if (line.key == "compile_backends") {
    traits.compile_backends.push_back(line.value);
  } else if (line.key == "visible_devices_env") {
    traits.visible_devices_envs.push_back(line.value);
  } else if (line.key == "export_env") {
    traits.export_envs.push_back(line.value);
  } else if (line.key == "start_environment") {
    traits.start_environment.push_back(setting_of(line));
  } else {
    return false;
  }
  return true;
}

bool read_probe(const PluginLine& line, PluginProbe& probe) {
  if (line.key == "probe_count") {
    probe.count = number_of(line, 0, 1024);
  } else if (line.key == "probe_folder") {
    probe.folder = path_of(line);
  } else if (line.key == "probe_prefix") {
    probe.prefix = path_of(line);
  } else if (line.key == "probe_attribute") {
    probe.attribute = path_of(line);
  } else if (line.key == "probe_attribute_value") {
    probe.attribute_value = line.value;
  } else if (line.key == "probe_visible") {
    probe.visible = line.value;
  } else if (line.key == "probe_opaque_ids") {
    probe.opaque_ids = flag_of(line);
  } else {
    return false;
  }
  return true;
}

bool read_trait(const PluginLine& line, sdk::Traits& traits) {
  struct Text {
    const char* key;
    std::string sdk::Traits::*member;
  };
  static constexpr std::array<Text, 6> kTexts{
      {{"class_name", &sdk::Traits::class_name},
       {"device_type", &sdk::Traits::device_type},
       {"vendor", &sdk::Traits::vendor},
       {"communication_backend", &sdk::Traits::communication_backend},
       {"compile_backend", &sdk::Traits::compile_backend},
       {"op_builder_dir", &sdk::Traits::op_builder_dir}}};
  struct Flag {
    const char* key;
    bool sdk::Traits::*member;
  };
  static constexpr std::array<Flag, 8> kFlags{
      {{"synchronized", &sdk::Traits::synchronized},
       {"use_host_timers", &sdk::Traits::use_host_timers},
       {"resolves_data_dependency", &sdk::Traits::resolves_data_dependency},
       {"handles_memory_backpressure", &sdk::Traits::handles_memory_backpressure},
       {"indexed_names", &sdk::Traits::indexed_names},
       {"supports_nvtx_domain", &sdk::Traits::supports_nvtx_domain},
       {"fp64", &sdk::Traits::fp64},
       {"triton", &sdk::Traits::triton}}};
  for (const auto& [key, member] : kTexts)
    if (line.key == key) return traits.*member = line.value, true;
  for (const auto& [key, member] : kFlags)
    if (line.key == key) return traits.*member = flag_of(line), true;
  if (line.key != "priority") return false;
  traits.priority = number_of(line, -1'000'000, 1'000'000);
  return true;
}

bool is_list(const std::string& key) {
  return key == "compile_backends" || key == "visible_devices_env" || key == "export_env" ||
         key == "start_environment";
}

/// Rejects duplicate keys, because the choice between their values would be arbitrary.
void check_unique_keys(const std::vector<PluginLine>& lines) {
  for (std::size_t i = 0; i < lines.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (lines[i].key == lines[j].key && !is_list(lines[i].key))
        fail(lines[i].number, lines[i].key + " is duplicated", lines[i].value, "one value");
}

void require(bool good, const char* what) {
  if (!good) fail(0, what);
}

}  // namespace

bool is_plugin_name(std::string_view name) noexcept {
  const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
  return name.size() >= 2 && name.size() <= 32 && lower(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return lower(c) || (c >= '0' && c <= '9') || c == '_'; });
}

PluginFile parse_plugin_file(std::string_view text) {
  auto lines = read_lines(text);
  if (lines.empty() || lines.front().key != "anyaccel_plugin")
    fail(lines.empty() ? 0 : lines.front().number, "not a plugin text file",
         lines.empty() ? std::string() : lines.front().key,
         "`anyaccel_plugin = 1` as the first line");
  if (lines.front().value != std::to_string(kFormat))
    throw Error(ErrorCode::version_mismatch, kWhere,
                {.what = "unsupported format version of the text file",
                 .got = "'" + lines.front().value + "'",
                 .want = std::to_string(kFormat),
                 .hint = "rebuild the plugin with the CMake package of the installed AnyAccel"});
  check_unique_keys(lines);
  PluginFile file;
  for (auto line = lines.begin() + 1; line != lines.end(); ++line) {
    if (line->key == "name") {
      file.name = line->value;
      if (!is_plugin_name(file.name))
        fail(line->number, "invalid plugin name", file.name,
             "2 to 32 characters of a-z, 0-9 and _, starting with a letter");
    } else if (line->key == "library") {
      file.library = line->value;
      if (file.library.empty() || file.library.find('/') != std::string::npos)
        fail(line->number, "the library must be in the same folder as the text file", file.library,
             "a file name without a folder");
    } else if (line->key == "abi") {
      file.build.abi = static_cast<unsigned>(number_of(*line, 0, 1'000'000));
    } else if (line->key == "anyaccel") {
      file.build.anyaccel = line->value;
    } else if (line->key == "libtorch") {
      file.build.libtorch = line->value;
    } else if (line->key == "compiler_abi") {
      file.build.compiler_abi = line->value;
    } else if (line->key == "sanitizer") {
      file.build.sanitizer = line->value;
    } else {
      file.rest.push_back(std::move(*line));
    }
  }
  require(!file.name.empty(), "`name` is missing");
  require(!file.library.empty(), "`library` is missing");
  return file;
}

PluginTraits plugin_traits(const PluginFile& file) {
  PluginTraits out;
  out.traits.name = file.name;
  out.traits.communication_backend = "gloo";
  for (const auto& line : file.rest) {
    if (line.value.empty()) fail(line.number, line.key + " has no value");
    if (!read_trait(line, out.traits) && !read_list(line, out.traits) &&
        !read_probe(line, out.probe))
      fail(line.number, "unknown key", line.key, "a key from docs/reference/plugins.md");
  }
  require(!out.traits.class_name.empty(), "`class_name` is missing");
  require(!out.traits.device_type.empty(), "`device_type` is missing");
  require(out.probe.folder.empty() == out.probe.prefix.empty(),
          "`probe_folder` and `probe_prefix` must be used together");
  require(out.probe.attribute.empty() == out.probe.attribute_value.empty(),
          "`probe_attribute` and `probe_attribute_value` must be used together");
  require(!out.probe.count || out.probe.folder.empty(),
          "`probe_count` and `probe_folder` are mutually exclusive");
  return out;
}

std::optional<sdk::Probe> probe_plugin(const PluginProbe& probe) noexcept {
  try {
    if (probe.count) return sdk::Probe{*probe.count, "its text file sets the number of devices"};
    if (probe.folder.empty()) return std::nullopt;
    return probe_device_files(
        {.folder = probe.folder.c_str(),
         .prefix = probe.prefix.c_str(),
         .attribute = probe.attribute.empty() ? nullptr : probe.attribute.c_str(),
         .attribute_value = probe.attribute.empty() ? nullptr : probe.attribute_value.c_str(),
         .visible = {probe.visible.empty() ? nullptr : probe.visible.c_str()},
         .visible_ids = probe.opaque_ids ? VisibleIds::opaque : VisibleIds::indices});
  } catch (const std::exception& error) {
    return sdk::Probe{0, std::string("counting its device files failed: ") + error.what()};
  }
}

}  // namespace anyaccel

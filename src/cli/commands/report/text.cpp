#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>
#include <vector>

#include "cli/commands/report/report.h"

namespace anyaccel::cli {
namespace {

using Row = std::vector<std::string>;

/// Breaks `text` between words into lines of at most `width` columns.
std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines{""};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width)
      lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

class Page {
 public:
  explicit Page(std::size_t width) : width_(width) {}

  void title(const std::string& text) { out_ += "\n" + text + "\n"; }

  /// Prints rows in aligned columns; the last column is wrapped.
  void table(const std::vector<Row>& rows, const std::string& indent = "  ") {
    std::vector<std::size_t> widths;
    for (const Row& row : rows)
      for (std::size_t i = 0; i + 1 < row.size(); ++i) {
        widths.resize(std::max(widths.size(), i + 1));
        widths[i] = std::max(widths[i], row[i].size());
      }
    for (const Row& row : rows) {
      std::string line = indent;
      for (std::size_t i = 0; i + 1 < row.size(); ++i)
        line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
      const std::size_t start = line.size();
      for (const std::string& piece :
           wrapped(row.back(), std::max<std::size_t>(width_, start + 30) - start)) {
        line += piece;
        out_ += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
        line = std::string(start, ' ');
      }
    }
  }

  std::string take() { return std::move(out_); }

 private:
  std::size_t width_;
  std::string out_;
};

std::string bytes(const Json& value, const char* otherwise = "unknown") {
  if (!value.is_number()) return otherwise;
  double size = value.get<double>();
  std::size_t unit = 0;
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", size, kUnits[unit]);
  return text.data();
}

/// Returns a count with its noun, such as "1 core" or "2 cores".
std::string counted(const Json& number, const char* noun) {
  return number.dump() + " " + noun + (number == 1 ? "" : "s");
}

std::string text_or(const Json& object, const char* key, const char* otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

std::string device_line(const Json& device) {
  std::string out = text_or(device, "name", "unknown device");
  if (device.contains("capability") && device["capability"].is_array())
    out += ", capability " + device["capability"][0].dump() + "." + device["capability"][1].dump();
  if (device.contains("multi_processor_count") && device["multi_processor_count"].is_number())
    out += ", " + counted(device["multi_processor_count"], "compute unit");
  if (device.contains("numa_node") && device["numa_node"].is_number())
    out += ", NUMA node " + device["numa_node"].dump();
  for (const auto& [key, label] :
       {std::pair{"uuid", "id "}, std::pair{"driver_version", "driver "}})
    if (const auto text = text_or(device, key, ""); !text.empty())
      out += std::string(", ") + label + text;
  return out + ", " + bytes(device["total_memory"]) + " memory, " +
         bytes(device["available_memory"]) + " free";
}

void devices(Page& page, const Json& report) {
  page.title("Devices");
  std::vector<Row> rows;
  for (const Json& device : report["devices"])
    rows.push_back({device["index"].dump(), device_line(device)});
  page.table(rows);
}

/// Prints the data types of the first device, and a separate table for each device whose data types
/// differ.
void dtypes(Page& page, const Json& report) {
  const Json& list = report["devices"];
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i]["dtypes"].is_object() || (i > 0 && list[i]["dtypes"] == list[0]["dtypes"]))
      continue;
    page.title(i == 0 ? "Data types" : "Data types of device " + list[i]["index"].dump());
    std::vector<Row> rows{{"type", "store", "compute", "fast", "reduce"}};
    for (const auto& [name, support] : list[i]["dtypes"].items()) {
      Row row{name};
      for (const auto& [what, yes] : support.items()) row.push_back(yes.get<bool>() ? "yes" : "-");
      rows.push_back(row);
    }
    page.table(rows);
  }
}

void chosen(Page& page, const Json& report) {
  std::vector<Row> rows{{"accelerator", text_or(report, "accelerator", "none")},
                        {"reason", report["reason"]}};
  if (report.contains("devices")) {
    rows.push_back({"communication", text_or(report, "communication_backend", "unknown")});
    if (const auto why = text_or(report, "communication_backend_reason", ""); !why.empty())
      rows.push_back({"because", why});
    rows.push_back({"compilation", text_or(report, "compile_backend", "unknown")});
  }
  page.table(rows, "");
}

void backends(Page& page, const Json& report) {
  page.title("Backends, in order of detection");
  std::vector<Row> rows{{"", "name", "verdict", "devices", "reason"}};
  for (const Json& backend : report["backends"])
    rows.push_back({backend["name"] == report["accelerator"] ? "*" : "", backend["name"],
                    backend["verdict"], backend["device_count"].dump(), backend["reason"]});
  page.table(rows, "");
}

void plugins(Page& page, const Json& report) {
  if (!report.contains("plugins") || report["plugins"].empty()) return;
  page.title("Plugins");
  std::vector<Row> rows{{"name", "verdict", "path and reason"}};
  for (const Json& plugin : report["plugins"]) {
    const auto name = text_or(plugin, "name", "");
    rows.push_back({name.empty() ? "-" : name, plugin["verdict"], plugin["path"]});
    rows.push_back({"", "", plugin["reason"]});
  }
  page.table(rows);
}

void machine(Page& page, const Json& report) {
  page.title("Host");
  const Json& topology = report["topology"];
  std::string nodes;
  for (const Json& node : topology["nodes"])
    nodes += (nodes.empty() ? "node " : "; node ") + node["os_index"].dump() + " " +
             text_or(node, "kind", "") + " " + bytes(node["memory"]) + " CPUs " +
             text_or(node, "cpus", "");
  const Json& limits = report["memory"]["limits"];
  const Json& shared = report["shared_memory"];
  page.table({{"processor", topology["cpu_model"].get<std::string>() + ", " +
                                counted(topology["packages"], "package") + ", " +
                                counted(topology["cores"], "core") + ", CPUs " +
                                topology["cpus"].get<std::string>()},
              {"memory nodes", nodes.empty() ? "unknown" : nodes},
              {"instructions", report["host"]["instruction_set"].get<std::string>() + ", " +
                                   counted(report["host"]["threads"], "thread")},
              {"this process", bytes(report["memory"].value("rss", Json())) + " resident"},
              {"limits", "address space " + bytes(limits["address_space"], "unlimited") +
                             ", data " + bytes(limits["data"], "unlimited") + ", locked " +
                             bytes(limits["locked"], "unlimited") + ", stack " +
                             bytes(limits["stack"], "unlimited") + ", control group " +
                             bytes(limits["control_group"], "unlimited")},
              {"shared memory", shared["path"].get<std::string>() + " " + bytes(shared["total"]) +
                                    ", " + bytes(shared["free"]) + " free"}});
}

void op_builders(Page& page, const Json& report) {
  if (!report.contains("op_builders") || report["op_builders"].is_null()) return;
  page.title("Op builders");
  std::vector<Row> rows;
  for (const Json& builder : report["op_builders"])
    rows.push_back({builder["class_name"], builder["compatible"].get<bool>() ? "yes" : "no",
                    builder["reason"]});
  if (rows.empty()) rows.push_back({"none registered for this accelerator"});
  page.table(rows);
}

void environment(Page& page, const Json& report) {
  page.title("Environment");
  std::vector<Row> rows;
  for (const auto& [name, value] : report["environment"].items())
    rows.push_back({name, value.get<std::string>()});
  if (rows.empty()) rows.push_back({"no relevant variable is set"});
  page.table(rows);
}

void versions(Page& page, const Json& report) {
  page.title("Versions");
  std::vector<Row> rows;
  for (const auto& [name, value] : report["versions"].items())
    rows.push_back({name, value.is_null() ? "none" : value.get<std::string>()});
  page.table(rows);
}

}  // namespace

std::string report_text(const Json& report, std::size_t width) {
  Page page(width);
  chosen(page, report);
  backends(page, report);
  plugins(page, report);
  if (report.contains("devices")) {
    devices(page, report);
    dtypes(page, report);
  }
  machine(page, report);
  op_builders(page, report);
  environment(page, report);
  versions(page, report);
  if (!report["problems"].empty()) {
    page.title("Problems");
    std::vector<Row> rows;
    for (const Json& problem : report["problems"]) rows.push_back({problem.get<std::string>()});
    page.table(rows);
  }
  return page.take();
}

}  // namespace anyaccel::cli

// Writes the report as JSON and JUnit XML. Does not use a JSON or XML library, because the kit must
// depend only on LibTorch.
#include <cstdio>
#include <ostream>

#include "anyaccel/conformance/kit.h"

namespace anyaccel::conformance {

namespace {

/// Returns `text` as a JSON string literal. Invalid UTF-8 bytes, which may occur in device names,
/// become '?'.
std::string json(const std::string& text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += text[i];
    } else if (c == '\n') {
      out += "\\n";
    } else if (c < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", c);
      out += code;
    } else if (c < 0x80) {
      out += text[i];
    } else {
      const std::size_t length = c >= 0xF0 && c < 0xF5 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 ? 2 : 0;
      bool whole = length > 0 && c < 0xF5 && i + length <= text.size();
      for (std::size_t k = 1; whole && k < length; ++k)
        whole = (static_cast<unsigned char>(text[i + k]) & 0xC0) == 0x80;
      out += whole ? text.substr(i, length) : "?";
      if (whole) i += length - 1;
    }
  }
  return out + '"';
}

std::string xml(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\n': out += "&#10;"; break;
      // XML 1.0 forbids most other control characters. Non-ASCII bytes are also replaced, because
      // their encoding is unknown.
      default:
        out +=
            static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7E ? '?' : c;
    }
  }
  return out;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6f", value);
  return text;
}

int all(const Report& report, Outcome outcome) {
  int sum = 0;
  for (const auto& result : report.results) sum += result.outcome == outcome ? 1 : 0;
  return sum;
}

}  // namespace

void write_json(std::ostream& out, const Report& report) {
  out << "{\n  \"backend\": " << json(report.backend) << ",\n  \"device\": " << json(report.device)
      << ",\n  \"device_count\": " << report.device_count << ",\n  \"standing_in\": "
      << (report.standing_in.empty() ? "null" : json(report.standing_in))
      << ",\n  \"anyaccel\": " << json(report.version)
      << ",\n  \"libtorch\": " << json(report.torch_version)
      << ",\n  \"date\": " << json(report.date) << ",\n  \"note\": " << json(report.note)
      << ",\n  \"seconds\": " << number(report.seconds)
      << ",\n  \"summary\": {\n    \"conforms\": " << (report.conforms() ? "true" : "false");
  for (const Grade grade : {Grade::required, Grade::recommended, Grade::optional}) {
    out << ",\n    \"" << to_string(grade) << "\": {";
    const char* comma = "";
    for (const Outcome outcome : {Outcome::passed, Outcome::failed, Outcome::skipped,
                                  Outcome::expected_failure, Outcome::unexpected_pass}) {
      out << comma << '"' << to_string(outcome) << "\": " << report.count(grade, outcome);
      comma = ", ";
    }
    out << '}';
  }
  out << "\n  },\n  \"cases\": [";
  const char* comma = "\n";
  for (const auto& result : report.results) {
    out << comma << "    {\"name\": " << json(result.name) << ", \"suite\": " << json(result.suite)
        << ", \"grade\": \"" << to_string(result.grade) << "\", \"outcome\": \""
        << to_string(result.outcome) << "\", \"message\": " << json(result.message)
        << ", \"seconds\": " << number(result.seconds) << '}';
    comma = ",\n";
  }
  out << "\n  ]\n}\n";
}

void write_junit(std::ostream& out, const Report& report) {
  const int failed = all(report, Outcome::failed) + all(report, Outcome::unexpected_pass);
  const int skipped = all(report, Outcome::skipped) + all(report, Outcome::expected_failure);
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite "
         "name=\"conformance."
      << xml(report.backend) << "\" tests=\"" << report.results.size() << "\" failures=\"" << failed
      << "\" skipped=\"" << skipped << "\" time=\"" << number(report.seconds) << "\">\n";
  for (const auto& result : report.results) {
    out << "    <testcase classname=\"" << xml(result.suite) << "\" name=\"" << xml(result.name)
        << "\" time=\"" << number(result.seconds) << '"';
    const bool fails =
        result.outcome == Outcome::failed || result.outcome == Outcome::unexpected_pass;
    if (result.outcome == Outcome::passed)
      out << "/>\n";
    else
      out << "><" << (fails ? "failure" : "skipped") << " message=\"" << xml(result.message)
          << "\"/></testcase>\n";
  }
  out << "  </testsuite>\n</testsuites>\n";
}

}  // namespace anyaccel::conformance

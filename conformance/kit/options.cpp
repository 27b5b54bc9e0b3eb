// The command line of the conformance kit.
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "anyaccel/conformance/kit.h"
#include "anyaccel/pattern.h"

namespace anyaccel::conformance {

namespace {

constexpr std::array kOptions{
    OptionInfo{"backend", "NAME", "Accelerator to test (default: the detected one)"},
    OptionInfo{"suite", "SUITE", "Run only this suite; may be repeated"},
    OptionInfo{"case", "PATTERN", "Run only matching cases, for example 'memory.peak_*'"},
    OptionInfo{"list", nullptr, "List the cases with their grades and exit"},
    OptionInfo{"json", "FILE",
               "Write the results as JSON; with -, print JSON to standard output instead of the "
               "text report"},
    OptionInfo{"junit", "FILE", "Write the results as JUnit XML"},
    OptionInfo{"markdown", "FILE", "Write the results as a Markdown page"},
    OptionInfo{"note", "TEXT", "Note for the Markdown page, for example the hardware"},
    OptionInfo{
        "plugin", "FILE",
        "Plugin library to load; its backend is tested unless --backend names another backend"},
    OptionInfo{"skips", "FILE",
               "File that lists cases that are unsupported or known to fail; may be repeated"},
    OptionInfo{"timeout", "SECONDS", "Time limit per case in seconds (default 60)"},
    OptionInfo{"speed", nullptr,
               "Time tensor operations on the device and the host instead of testing"},
};

double read_seconds(const std::string& text) {
  std::istringstream in(text);
  double value = 0;
  if (in >> value && in.eof() && value > 0 && value < 1e6) return value;
  throw Error(ErrorCode::invalid_argument, "conformance",
              {.what = "--timeout is not a number of seconds",
               .got = "'" + text + "'",
               .want = "for example 60"});
}

void write_file(const std::string& path, const Report& report,
                void (*write)(std::ostream&, const Report&)) {
  if (path == "-") return write(std::cout, report);
  std::ofstream out(path);
  if (out) write(out, report);
  out.close();
  if (!out)
    throw Error(ErrorCode::io, "conformance",
                {.what = "cannot write the results", .got = path + ": " + std::strerror(errno)});
}

int print_list(const Options& options) {
  for (const auto& item : options.speed ? all_speed_cases() : all_cases()) {
    const bool suite =
        options.suites.empty() ||
        std::find(options.suites.begin(), options.suites.end(), item.suite) != options.suites.end();
    if (suite && matches_pattern(options.cases, item.full_name()))
      std::cout << item.full_name() << " (" << to_string(item.grade) << ")\n";
  }
  return 0;
}

void print_help(const char* program) {
  std::cout << "Usage: " << program
            << " [OPTION]...\n\nTest an accelerator with the conformance kit.\n\n";
  for (const auto& option : kOptions) {
    std::string left =
        std::string("  --") + option.name + (option.value ? std::string(" ") + option.value : "");
    left.resize(std::max<std::size_t>(left.size() + 2, 22), ' ');
    std::cout << left << option.text << "\n";
  }
  std::cout
      << "  -h, --help          Print this help and exit\n\n"
         "Exit code: 0 all required cases passed, 1 a case or the run failed, 2 usage error.\n";
}

Options parse(int argc, const char* const* argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i], value;
    if (word.rfind("--", 0) != 0)
      throw Error(ErrorCode::invalid_argument, "conformance",
                  {.what = "unexpected argument", .got = "'" + word + "'"});
    const auto equals = word.find('=');
    const bool has_value = equals != std::string::npos;
    if (has_value) value = word.substr(equals + 1);
    std::string name = word.substr(2, has_value ? equals - 2 : std::string::npos);
    std::replace(name.begin(), name.end(), '_', '-');
    const auto known = std::find_if(kOptions.begin(), kOptions.end(),
                                    [&](const OptionInfo& option) { return name == option.name; });
    if (known != kOptions.end() && known->value != nullptr && !has_value) {
      if (i + 1 == argc)
        throw Error(ErrorCode::invalid_argument, "conformance",
                    {.what = "--" + name + " requires a value"});
      value = argv[++i];
    }
    set_option(options, name, value);
  }
  return options;
}

}  // namespace

std::span<const OptionInfo> option_table() noexcept { return kOptions; }

void set_option(Options& options, const std::string& name, const std::string& value) {
  if (name == "backend") {
    options.backend = value;
  } else if (name == "suite") {
    options.suites.push_back(value);
  } else if (name == "case") {
    options.cases = value;
  } else if (name == "list") {
    options.list = true;
  } else if (name == "json") {
    options.json = value;
  } else if (name == "junit") {
    options.junit = value;
  } else if (name == "markdown") {
    options.markdown = value;
  } else if (name == "note") {
    options.note = value;
  } else if (name == "plugin") {
    options.plugins.push_back(value);
  } else if (name == "skips") {
    options.skip_lists.push_back(value);
  } else if (name == "timeout") {
    options.timeout = read_seconds(value);
  } else if (name == "speed") {
    options.speed = true;
  } else {
    throw Error(ErrorCode::invalid_argument, "conformance",
                {.what = "unknown option", .got = "'--" + name + "'"});
  }
}

int run_and_write(const Options& options) {
  if (options.list) return print_list(options);
  const auto report = run(options);
  const bool free = options.json != "-" && options.junit != "-" && options.markdown != "-";
  if (!options.quiet && free) write_text(std::cout, report);
  if (!options.json.empty()) write_file(options.json, report, write_json);
  if (!options.junit.empty()) write_file(options.junit, report, write_junit);
  if (!options.markdown.empty()) write_file(options.markdown, report, write_markdown);
  std::cout.flush();
  return report.conforms() ? 0 : 1;
}

int conformance_main(int argc, const char* const* argv) {
  const char* program = argc > 0 ? argv[0] : "conformance";
  for (int i = 1; i < argc; ++i)
    if (std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0)
      return print_help(program), 0;
  Options options;
  try {
    options = parse(argc, argv);
  } catch (const Error& error) {
    std::cerr << error.what() << "\nTry '" << program << " --help'.\n";
    return 2;
  }
  try {
    return run_and_write(options);
  } catch (const Error& error) {
    std::cout.flush();
    std::cerr << "error: " << error.what() << "\n";
    return error.code() == ErrorCode::invalid_argument ? 2 : 1;
  }
}

}  // namespace anyaccel::conformance

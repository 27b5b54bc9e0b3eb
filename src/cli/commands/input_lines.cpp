#include "cli/commands/input_lines.h"

#include <fstream>
#include <iostream>

#include "anyaccel/error.h"

namespace anyaccel::cli {

void for_each_input(const std::string& command, const std::string& text, const std::string& file,
                    const std::function<void(const std::string&)>& take) {
  if (file.empty()) {
    take(text);
    return;
  }
  std::ifstream opened;
  if (file != "-") {
    opened.open(file, std::ios::binary);
    if (!opened) throw Error(ErrorCode::not_found, command, {.what = "cannot open the file", .got = file});
  }
  std::istream& in = file == "-" ? std::cin : opened;
  for (std::string line; std::getline(in, line);) take(line);
}

}  // namespace anyaccel::cli

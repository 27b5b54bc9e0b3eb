#include <array>
#include <cstdio>

#include "anyaccel/error.h"
#include "base/file.h"
#include "launch/picture.h"

namespace anyaccel::launch {

namespace {

std::string hex(Colour colour) {
  std::array<char, 8> text{};
  std::snprintf(text.data(), text.size(), "#%06x", colour & 0xffffff);
  return text.data();
}

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else
      out += c;
  }
  return out;
}

std::string attribute(const char* name, int value) {
  return std::string(" ") + name + "=\"" + std::to_string(value) + "\"";
}

}  // namespace

std::string to_svg(const Picture& picture) {
  std::string svg =
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\"" +
      attribute("width", picture.width) + attribute("height", picture.height) + " viewBox=\"0 0 " +
      std::to_string(picture.width) + " " + std::to_string(picture.height) +
      "\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n";
  for (const auto& box : picture.boxes)
    svg += "<rect class=\"" + box.kind + "\"" + attribute("x", box.x) + attribute("y", box.y) +
           attribute("width", box.width) + attribute("height", box.height) + " fill=\"" +
           hex(box.fill) + "\" stroke=\"" + hex(box.border) + "\"/>\n";
  for (const auto& label : picture.labels)
    svg += "<text" + attribute("x", label.x) + attribute("y", label.y) +
           attribute("font-size", label.size) + " fill=\"" + hex(label.colour) + "\"" +
           (label.centred ? " text-anchor=\"middle\"" : "") +
           (label.bold ? " font-weight=\"bold\"" : "") + ">" + escape(label.text) + "</text>\n";
  return svg + "</svg>\n";
}

void write_picture(const Picture& picture, const std::filesystem::path& file) {
  const auto ending = file.extension();
  if (ending != ".svg" && ending != ".png")
    throw Error(ErrorCode::invalid_argument, "topology",
                {.what = "the file name extension is not a supported picture format",
                 .got = file.string(),
                 .want = "a name that ends in .svg or .png"});
  write_file_atomically(file, ending == ".svg" ? to_svg(picture) : to_png(picture));
}

}  // namespace anyaccel::launch

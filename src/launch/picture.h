// A machine, and what each rank gets of it, as a picture.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "launch/plan.h"

namespace anyaccel::launch {

/// A colour as 0xRRGGBB.
using Colour = unsigned;

/// A filled rectangle with a thin border.
struct Box {
  int x = 0, y = 0, width = 0, height = 0;
  Colour fill = 0xffffff;
  Colour border = 0x000000;
  std::string kind;  ///< "machine", "package", "node", "memory", "core", "pu" (hwloc's word for a
                     ///< hardware thread) or "rank": its class in SVG
};

/// A line of text; `y` is its baseline.
struct Label {
  int x = 0, y = 0;
  int size = 11;
  std::string text;
  Colour colour = 0x202020;
  bool centred = false;  ///< round `x`, rather than from there to the right
  bool bold = false;
};

/// What is drawn, in this order: boxes, then labels. Pixels, the origin at the top left.
struct Picture {
  int width = 0, height = 0;
  std::vector<Box> boxes;
  std::vector<Label> labels;
};

/// The colour that a rank's cores and memory have in pictures.
Colour rank_colour(int rank);

/// Draws packages, NUMA nodes with their memory, cores and their hardware threads; with a plan,
/// CPUs in the colour of their rank, reserved ones grey, and a legend. Where ranks share a CPU, it
/// has the colour of the first.
ANYACCEL_API Picture draw(const topology::Machine& machine, const HostPlan* plan = nullptr);

/// As an SVG document.
std::string to_svg(const Picture& picture);

/// As a PNG file's bytes, twice the picture's size. Throws `unsupported` in a build without cairo,
/// `unavailable` where cairo's library cannot be opened.
std::string to_png(const Picture& picture);

/// Writes a file in the format that its name ends in, .svg or .png; a file that was there is
/// replaced as a whole. Throws as to_png(), `invalid_argument` for other names, and `io`.
ANYACCEL_API void write_picture(const Picture& picture, const std::filesystem::path& file);

}  // namespace anyaccel::launch

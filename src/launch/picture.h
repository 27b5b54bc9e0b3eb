// Draws a machine and the cores of each rank.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "anyaccel/export.h"
#include "launch/plan.h"

namespace anyaccel::launch {

/// A color as 0xRRGGBB.
using Colour = unsigned;

/// A filled rectangle with a thin border.
struct Box {
  int x = 0, y = 0, width = 0, height = 0;
  Colour fill = 0xffffff;
  Colour border = 0x000000;
  /// Class in SVG: "machine", "package", "node", "memory", "core", "pu" (hwloc's term for a
  /// hardware thread) or "rank".
  std::string kind;
};

/// A line of text; `y` is its baseline.
struct Label {
  int x = 0, y = 0;
  int size = 11;
  std::string text;
  Colour colour = 0x202020;
  bool centred = false;  ///< whether the text is centered at `x` instead of beginning there
  bool bold = false;
};

/// Shapes to draw: first the boxes, then the labels. Units are pixels, with the origin at the top
/// left.
struct Picture {
  int width = 0, height = 0;
  std::vector<Box> boxes;
  std::vector<Label> labels;
};

/// Returns the color of a rank's CPUs.
Colour rank_colour(int rank);

/// Draws packages, NUMA nodes with their memory, cores and hardware threads. With a plan, CPUs have
/// the color of their rank (of the first one if several ranks use a CPU), reserved CPUs are gray,
/// and the picture has a legend.
ANYACCEL_API Picture draw(const topology::Machine& machine, const HostPlan* plan = nullptr);

/// Returns the picture as an SVG document.
std::string to_svg(const Picture& picture);

/// Returns the picture as PNG data at twice the picture's size in pixels. Throws `unsupported` in a
/// build without cairo, and `unavailable` if the cairo library cannot be opened.
std::string to_png(const Picture& picture);

/// Writes the picture in the format of the file's extension, .svg or .png. Replaces an existing
/// file atomically. Throws the same errors as to_png(), `invalid_argument` for other extensions,
/// and `io`.
ANYACCEL_API void write_picture(const Picture& picture, const std::filesystem::path& file);

}  // namespace anyaccel::launch

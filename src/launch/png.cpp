// Writes PNG files with cairo. The library is opened on demand, so that programs that start ranks
// do not load it.
#include <cairo/cairo.h>

#include <memory>
#include <string>

#include "anyaccel/error.h"
#include "base/dynamic_library.h"
#include "launch/picture.h"

namespace anyaccel::launch {

namespace {

constexpr const char* kLibrary = "libcairo.so.2";
constexpr double kScale = 2;

/// cairo's functions, with the types from cairo.h.
struct Cairo {
  DynamicLibrary library;
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name
#define ANYACCEL_CAIRO(name) \
  decltype(&cairo_##name) name = library.get<decltype(&cairo_##name)>("cairo_" #name)
  ANYACCEL_CAIRO(image_surface_create);
  ANYACCEL_CAIRO(surface_status);
  ANYACCEL_CAIRO(surface_destroy);
  ANYACCEL_CAIRO(surface_write_to_png_stream);
  ANYACCEL_CAIRO(create);
  ANYACCEL_CAIRO(destroy);
  ANYACCEL_CAIRO(status);
  ANYACCEL_CAIRO(status_to_string);
  ANYACCEL_CAIRO(scale);
  ANYACCEL_CAIRO(set_source_rgb);
  ANYACCEL_CAIRO(set_line_width);
  ANYACCEL_CAIRO(rectangle);
  ANYACCEL_CAIRO(fill_preserve);
  ANYACCEL_CAIRO(stroke);
  ANYACCEL_CAIRO(select_font_face);
  ANYACCEL_CAIRO(set_font_size);
  ANYACCEL_CAIRO(text_extents);
  ANYACCEL_CAIRO(move_to);
  ANYACCEL_CAIRO(show_text);
#undef ANYACCEL_CAIRO

  Cairo() : library(open()) {}

  static DynamicLibrary open() {
    std::string reason;
    // Never unload cairo: its font libraries do not free their caches, so each reload would leak
    // them.
    auto opened = DynamicLibrary::try_open(kLibrary, &reason, DynamicLibrary::Unload::never);
    if (opened) return opened;
    throw Error(ErrorCode::unavailable, "topology",
                {.what = "writing a PNG requires cairo, which cannot be loaded: " + reason,
                 .hint = "install libcairo2 (Debian) or cairo, or write an .svg"});
  }

  void check(cairo_status_t result) const {
    if (result == CAIRO_STATUS_SUCCESS) return;
    throw Error(
        result == CAIRO_STATUS_NO_MEMORY ? ErrorCode::out_of_memory : ErrorCode::io, "topology",
        {.what = std::string("cannot write the picture as a PNG: ") + status_to_string(result),
         .hint = "write an .svg"});
  }
};

void set_colour(const Cairo& cairo, cairo_t* context, Colour colour) {
  cairo.set_source_rgb(context, (colour >> 16 & 255) / 255.0, (colour >> 8 & 255) / 255.0,
                       (colour & 255) / 255.0);
}

void paint(const Cairo& cairo, cairo_t* context, const Picture& picture) {
  cairo.scale(context, kScale, kScale);
  cairo.set_line_width(context, 1);
  for (const auto& box : picture.boxes) {
    cairo.rectangle(context, box.x, box.y, box.width, box.height);
    set_colour(cairo, context, box.fill);
    cairo.fill_preserve(context);
    set_colour(cairo, context, box.border);
    cairo.stroke(context);
  }
  for (const auto& label : picture.labels) {
    cairo.select_font_face(context, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           label.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo.set_font_size(context, label.size);
    double left = label.x;
    if (label.centred) {
      cairo_text_extents_t extents{};
      cairo.text_extents(context, label.text.c_str(), &extents);
      left -= extents.x_advance / 2;
    }
    cairo.move_to(context, left, label.y);
    set_colour(cairo, context, label.colour);
    cairo.show_text(context, label.text.c_str());
  }
}

cairo_status_t append(void* text, const unsigned char* data, unsigned int length) {
  try {
    static_cast<std::string*>(text)->append(reinterpret_cast<const char*>(data), length);
  } catch (const std::bad_alloc&) {
    return CAIRO_STATUS_NO_MEMORY;
  }
  return CAIRO_STATUS_SUCCESS;
}

}  // namespace

std::string to_png(const Picture& picture) {
  const Cairo cairo;
  const std::unique_ptr<cairo_surface_t, decltype(cairo.surface_destroy)> surface(
      cairo.image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(picture.width * kScale),
                                 static_cast<int>(picture.height * kScale)),
      cairo.surface_destroy);
  cairo.check(cairo.surface_status(surface.get()));
  const std::unique_ptr<cairo_t, decltype(cairo.destroy)> context(cairo.create(surface.get()),
                                                                  cairo.destroy);
  paint(cairo, context.get(), picture);
  cairo.check(cairo.status(context.get()));
  std::string bytes;
  cairo.check(cairo.surface_write_to_png_stream(surface.get(), append, &bytes));
  return bytes;
}

}  // namespace anyaccel::launch

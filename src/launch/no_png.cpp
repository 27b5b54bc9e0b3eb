#include "anyaccel/error.h"
#include "launch/picture.h"

namespace anyaccel::launch {

std::string to_png(const Picture&) {
  throw Error(ErrorCode::unsupported, "topology",
              {.what = "AnyAccel was built without the cairo headers, so it cannot write PNG files",
               .hint = "write an .svg, or build with libcairo2-dev (cairo-devel) installed"});
}

}  // namespace anyaccel::launch

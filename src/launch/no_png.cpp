#include "anyaccel/error.h"
#include "launch/picture.h"

namespace anyaccel::launch {

std::string to_png(const Picture&) {
  throw Error(ErrorCode::unsupported, "topology",
              {.what = "this AnyAccel was built without cairo's headers, so it cannot write a PNG",
               .hint = "write an .svg, or build with libcairo2-dev (cairo-devel) installed"});
}

}  // namespace anyaccel::launch

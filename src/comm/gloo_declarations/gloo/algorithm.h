// LibTorch's ProcessGroupGloo.hpp includes gloo's headers, which LibTorch does not ship. The
// classes that AnyAccel uses from it hold only pointers to gloo's types, so these few declarations
// are enough. They are on the include path of groups.cpp only, and only if LibTorch lacks gloo's
// headers.
#pragma once

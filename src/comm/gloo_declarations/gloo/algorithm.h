// LibTorch's ProcessGroupGloo.hpp includes gloo's headers, which LibTorch does not ship. It only
// holds pointers to gloo's types where we use it, so these few declarations are enough. They are on
// the include path of groups.cpp only, and only if LibTorch lacks gloo's headers.
#pragma once

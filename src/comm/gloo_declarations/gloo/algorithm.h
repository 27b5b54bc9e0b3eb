// LibTorch's ProcessGroupGloo.hpp includes gloo's headers, which LibTorch does not bring. It holds
// pointers to what they define and calls nothing of it where we use it, so these few declarations
// are enough. They lie on the include path of groups.cpp alone, and only where LibTorch has none.
#pragma once

// The conformance kit as a separate program, for builds without the command `anyaccel conformance`.
#include "anyaccel/conformance/kit.h"

int main(int argc, char** argv) { return anyaccel::conformance::conformance_main(argc, argv); }

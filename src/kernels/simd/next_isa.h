// Ends the pass of one instruction set, so that *_isa.h files can be included again. See
// each_isa.h.
#undef ANYACCEL_ISA
#if defined(ANYACCEL_ISA_TOGGLE)
#undef ANYACCEL_ISA_TOGGLE
#else
#define ANYACCEL_ISA_TOGGLE
#endif

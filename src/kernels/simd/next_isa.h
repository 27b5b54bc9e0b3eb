// Ends the pass of one instruction set: the include guards of *_isa.h files let their files in once
// more. See each_isa.h.
#undef ANYACCEL_ISA
#if defined(ANYACCEL_ISA_TOGGLE)
#undef ANYACCEL_ISA_TOGGLE
#else
#define ANYACCEL_ISA_TOGGLE
#endif

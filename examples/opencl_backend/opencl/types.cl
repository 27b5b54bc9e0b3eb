// Loads and stores for each dtype. T_<dtype> is the type in memory, LOAD_<dtype> returns a value in
// the type in which kernels compute (float, double or long), STORE_<dtype> converts back.
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define TYPE(t) JOIN(T_, t)
#define LOAD(t, p, i) JOIN(LOAD_, t)(p, i)
#define STORE(t, p, i, v) JOIN(STORE_, t)(p, i, v)

#define T_f32 float
#define LOAD_f32(p, i) ((p)[i])
#define STORE_f32(p, i, v) ((p)[i] = (float)(v))

#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define T_f64 double
#define LOAD_f64(p, i) ((p)[i])
#define STORE_f64(p, i, v) ((p)[i] = (double)(v))
#endif

inline float from_bf16(ushort bits) { return as_float((uint)bits << 16); }
// Rounds to the nearest value, ties to even.
inline ushort to_bf16(float value) {
  const uint bits = as_uint(value);
  if (isnan(value)) return 0x7fc0;
  return (ushort)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
#define T_bf16 ushort
#define LOAD_bf16(p, i) from_bf16((p)[i])
#define STORE_bf16(p, i, v) ((p)[i] = to_bf16((float)(v)))

#define T_f16 half
#define LOAD_f16(p, i) vload_half(i, p)
#define STORE_f16(p, i, v) vstore_half_rte((float)(v), i, p)

#define T_i64 long
#define LOAD_i64(p, i) ((p)[i])
#define STORE_i64(p, i, v) ((p)[i] = (long)(v))
#define T_i32 int
#define LOAD_i32(p, i) ((long)(p)[i])
#define STORE_i32(p, i, v) ((p)[i] = (int)(long)(v))
#define T_i16 short
#define LOAD_i16(p, i) ((long)(p)[i])
#define STORE_i16(p, i, v) ((p)[i] = (short)(long)(v))
#define T_i8 char
#define LOAD_i8(p, i) ((long)(p)[i])
#define STORE_i8(p, i, v) ((p)[i] = (char)(long)(v))
#define T_u8 uchar
#define LOAD_u8(p, i) ((long)(p)[i])
#define STORE_u8(p, i, v) ((p)[i] = (uchar)(long)(v))
#define T_b8 uchar
#define LOAD_b8(p, i) ((long)((p)[i] != 0))
#define STORE_b8(p, i, v) ((p)[i] = (uchar)((v) != 0))

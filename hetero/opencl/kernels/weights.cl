// Weights of a row, from blocks of 32. codes is [blocks][part][rows], 128 bits
// each, of which FORMAT says how many parts make a block; scales is
// [blocks][rows].

// SCALES are stored, SCALE is what belongs to a block of them.
#if FORMAT == Q4_SCALE || FORMAT == Q8_SCALE
#define SCALES __global const half
#define SCALE float
#define scale_of(scales, at) vload_half(at, scales)
#elif FORMAT <= Q8_HALVES
#define SCALES __global const float2
#define SCALE float2
#define scale_of(scales, at) (scales)[at]
#else
#define SCALES __global const uint4 // unused
#define SCALE float
#define scale_of(scales, at) 1.0f
#endif

#if FORMAT <= Q4_OFFSET
#define UNITS 1
#elif FORMAT <= Q8_HALVES
#define UNITS 2
#elif FORMAT <= BF16
#define UNITS 4
#else
#define UNITS 8
#endif

// unpack makes the weights of 128 bits.
void unpack(uint4 u, float *w) {
#if FORMAT <= Q4_OFFSET
  const float zero = FORMAT == Q4_SCALE ? 8.0f : 0.0f;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    w[i] = NIBBLE(u.x, i, zero);
    w[8 + i] = NIBBLE(u.y, i, zero);
    w[16 + i] = NIBBLE(u.z, i, zero);
    w[24 + i] = NIBBLE(u.w, i, zero);
  }
#elif FORMAT <= Q8_HALVES
#pragma unroll
  for (int i = 0; i < 4; i++) {
    w[i] = BYTE(u.x, i);
    w[4 + i] = BYTE(u.y, i);
    w[8 + i] = BYTE(u.z, i);
    w[12 + i] = BYTE(u.w, i);
  }
#elif FORMAT == F16
  const uint v[4] = {u.x, u.y, u.z, u.w};
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const uint bits = v[i / 2] >> (16 * (i % 2));
    w[i] = as_float((bits & 0x7FFFu) << 13 | (bits & 0x8000u) << 16) * 0x1p112f;
  }
#elif FORMAT == BF16
  const uint v[4] = {u.x, u.y, u.z, u.w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    w[2 * i] = as_float(v[i] << 16);
    w[2 * i + 1] = as_float(v[i] & 0xFFFF0000u);
  }
#else
  w[0] = as_float(u.x);
  w[1] = as_float(u.y);
  w[2] = as_float(u.z);
  w[3] = as_float(u.w);
#endif
}

#define PER_UNIT (32 / UNITS)

// scaled applies what belongs to the unit of a block, all but a factor that it
// returns.
float scaled(float *w, SCALE s, int unit) {
#if FORMAT == Q8_HALVES
  return unit == 0 ? s.x : s.y;
#elif FORMAT == Q4_OFFSET || FORMAT == Q8_OFFSET
#pragma unroll
  for (int i = 0; i < PER_UNIT; i++)
    w[i] = s.x * w[i] + s.y;
  return 1.0f;
#else
  return s;
#endif
}

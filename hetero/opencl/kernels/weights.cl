// The weights of a matrix are in one buffer, because each buffer of a launch costs time
// in the driver: codes [blocks][units][rows] of 128 bits, where FORMAT determines the
// units per block of 32 columns; scales [blocks][rows]; and, from the next multiple of
// 16 bytes on, a bias [rows].

// CODED: weights are codes, not floats.
#define CODED (FORMAT <= Q8_HALVES)

// RAW is the stored scale of a block, SCALE its decoded form.
#if FORMAT == Q4_SCALE || FORMAT == Q8_SCALE
#define RAW ushort
#define SCALE float
float scale_of(RAW raw) { return vload_half(0, (const half *)&raw); }
#elif CODED
#define RAW float2
#define SCALE float2
#define scale_of(raw) (raw)
#else
#define RAW uchar // not used: the format has no scale
#define SCALE float
#define scale_of(raw) 1.0f
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

#define PER_UNIT (32 / UNITS)

__global const uint4 *codes_of(__global const uchar *weights) { return (__global const uint4 *)weights; }

size_t code_bytes(int rows, int blocks) { return (size_t)blocks * UNITS * rows * 16; }

__global const RAW *scales_of(__global const uchar *weights, int rows, int blocks) {
  return (__global const RAW *)(weights + code_bytes(rows, blocks));
}

__global const float *bias_of(__global const uchar *weights, int rows, int blocks) {
  const size_t scale_bytes = CODED ? (size_t)blocks * rows * sizeof(RAW) : 0;
  return (__global const float *)(weights + ((code_bytes(rows, blocks) + scale_bytes + 15) & ~(size_t)15));
}

// raw_at loads the stored scale of a block.
#if CODED
#define raw_at(scales, at) (scales)[at]
#else
#define raw_at(scales, at) ((void)(scales), 0)
#endif

// unpack decodes 128 bits of weights.
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

// scaled applies the block's scale and offset to a unit if the format has offsets. It
// returns the factor by which the caller multiplies the unit.
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

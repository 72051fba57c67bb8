// The input of a GEMV. For weights in a float format, a kernel uses the input
// unchanged. For weights in codes, it quantizes each block of 32 elements to 8 bits,
// with a scale that maps the greatest magnitude to 127.

#define PIECE 8 // elements that a work item prepares
#define PIECES (32 / PIECE) // per block

// Specialized builds replace arguments by constants.
#ifdef HEIGHT
#define KNOWN(constant, argument) constant
#else
#define KNOWN(constant, argument) argument
#endif

// The location of the input.
typedef struct {
  __global const float *x; // memory; from and side are indices into it
  int from, cols, source;
  int side; // start of the gains, or of the softmax states of attention splits
  int head, splits; // elements of a head and splits of the context
} Input;

typedef struct {
  float4 x[PIECE / 4], gain[PIECE / 4];
} Piece;

// input4 returns four elements, 0 beyond the end.
float4 input4(__global const float *x, int at, int left) {
#if CODED // whole blocks
  if (left <= 0)
    return (float4)(0.0f);
#else
  if (left < 4) {
    float4 v = (float4)(0.0f);
    if (left > 0)
      v.x = x[at];
    if (left > 1)
      v.y = x[at + 1];
    if (left > 2)
      v.z = x[at + 2];
    return v;
  }
#endif
  return at % 4 == 0 ? GLOBAL4(x + at) : vload4(0, x + at);
}

// merged merges attention splits: count quads of the sums of each split. The states of
// a split are its greatest score and its sum of weights. All quads belong to one head.
void merged(float4 *quads, const int count, const Input *in, int at) {
  const int heads = in->cols / in->head, h = at / in->head;
  __global const float2 *states = (__global const float2 *)(in->x + in->side);
  __global const float *x = in->x + in->from + at;
#pragma unroll
  for (int k = 0; k < count; k++)
    quads[k] = GLOBAL4(x + 4 * k); // often there is only one split
  const float2 state = states[h];
  float greatest = state.x;
#pragma unroll 8
  for (int s = 1; s < in->splits; s++)
    greatest = fmax(greatest, states[s * heads + h].x);
  const float e = exp(state.x - greatest);
  float weight = e * state.y;
#pragma unroll
  for (int k = 0; k < count; k++)
    quads[k] *= e;
#pragma unroll 8
  for (int s = 1; s < in->splits; s++) {
    const float2 state = states[s * heads + h];
    const float e = exp(state.x - greatest);
#pragma unroll
    for (int k = 0; k < count; k++)
      quads[k] += e * GLOBAL4(x + s * in->cols + 4 * k);
    weight += e * state.y;
  }
#pragma unroll
  for (int k = 0; k < count; k++)
    quads[k] /= weight;
}

// take starts to load a piece. Elements beyond the end are zeros.
void take(Piece *p, const Input *in, int at, int end) {
  if (in->source == MERGED && in->head % PIECE == 0 && at < min(end, in->cols)) {
    merged(p->x, PIECE / 4, in, at);
    return;
  }
#pragma unroll
  for (int k = 0; k < PIECE / 4; k++) {
    const int i = at + 4 * k, left = min(end, in->cols) - i;
    p->x[k] = (float4)(0.0f);
    if (in->source != MERGED)
      p->x[k] = input4(in->x, in->from + i, left);
    else if (left > 0)
      merged(p->x + k, 1, in, i);
    if (in->source == NORMED)
      p->gain[k] = input4(in->x, in->side + i, left);
  }
}

// squares_of returns the sum of squares of a piece.
float squares_of(const Piece *p) {
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < PIECE / 4; k++)
    sum += dot(p->x[k], p->x[k]);
  return sum;
}

#if CODED
#define STAGED uint4
#define PER_BLOCK 2

// packed returns the low bytes of four integers.
uint packed(int a, int b, int c, int d) {
  return (a & 255) | (b & 255) << 8 | (c & 255) << 16 | (uint)d << 24;
}

// small rounds to integers, which it returns in the low bits of the result.
int4 small(float4 v) { return as_int4(v + 12582912.0f); }

// stage stores piece i of the input in local memory, in the order of the codes in a
// word of weights. All work items of the group must call it.
void stage(Piece *p, __local STAGED *staged, __local float *scales, __local float *most, int i, int id) {
  const float4 v = fmax(fabs(p->x[0]), fabs(p->x[1]));
  most[id] = fmax(fmax(v.x, v.y), fmax(v.z, v.w));
  barrier(CLK_LOCAL_MEM_FENCE);
  const float4 of_block = LOCAL4(most + id / PIECES * PIECES);
  const float greatest = fmax(fmax(of_block.x, of_block.y), fmax(of_block.z, of_block.w));
  const float up = greatest > 0x1p-100f ? 127.0f / greatest : 0.0f;
  const int4 a = small(p->x[0] * up), b = small(p->x[1] * up);
#if FORMAT <= Q4_OFFSET
  ((__local uint2 *)staged)[i] = (uint2)(packed(a.x, a.z, b.x, b.z), packed(a.y, a.w, b.y, b.w));
#else
  ((__local uint2 *)staged)[i] = (uint2)(packed(a.x, a.y, a.z, a.w), packed(b.x, b.y, b.z, b.w));
#endif
  scales[i / PIECES] = greatest / 127.0f; // all work items of a block write the same value
}

// EVEN and ODD extract the even and odd nibbles of a word as one code per byte. In
// formats without an offset, code 8 means zero: the macros put the code in the upper
// half of the byte and flip its highest bit, which gives a signed code times 16.
#if FORMAT == Q4_SCALE
#define EVEN(word) (((word) << 4 & 0xF0F0F0F0u) ^ 0x80808080u)
#define ODD(word) (((word) & 0xF0F0F0F0u) ^ 0x80808080u)
#else
#define EVEN(word) ((word) & 0x0F0F0F0Fu)
#define ODD(word) ((word) >> 4 & 0x0F0F0F0Fu)
#endif

// block_product is the dot product of a block of weights and of the input.
float block_product(const uint4 *units, RAW raw, __local const STAGED *in, float in_scale) {
  const uint4 p = in[0], q = in[1];
  const uint x[8] = {p.x, p.y, p.z, p.w, q.x, q.y, q.z, q.w};
  const SCALE scale = scale_of(raw);
  int first = 0, second = 0; // of the two halves of the elements
#if FORMAT <= Q4_OFFSET
  const uint w[4] = {units->x, units->y, units->z, units->w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    first = dot4(EVEN(w[i]), x[2 * i], first);
    second = dot4(ODD(w[i]), x[2 * i + 1], second);
  }
#else
  const uint w[8] = {units[0].x, units[0].y, units[0].z, units[0].w, units[1].x, units[1].y, units[1].z, units[1].w};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    first = dot4(w[i] ^ 0x80808080u, x[i], first);
    second = dot4(w[4 + i] ^ 0x80808080u, x[4 + i], second);
  }
#endif
#if FORMAT == Q8_HALVES
  return in_scale * (scale.x * first + scale.y * second);
#elif FORMAT == Q4_OFFSET || FORMAT == Q8_OFFSET
  int sum = 0;
#pragma unroll
  for (int i = 0; i < 8; i++)
    sum = dot4(x[i], 0x01010101u, sum);
  return in_scale * (scale.x * (first + second) + scale.y * sum);
#elif FORMAT == Q4_SCALE
  return in_scale * 0x1p-4f * scale * (first + second);
#else
  return in_scale * scale * (first + second);
#endif
}
#else
#define STAGED float
#define PER_BLOCK 36 // padded, so that lanes use different banks

void stage(Piece *p, __local STAGED *staged, __local float *scales, __local float *most, int i, int id) {
  __local float4 *to = (__local float4 *)(staged + i / PIECES * PER_BLOCK + i % PIECES * PIECE);
  to[0] = p->x[0];
  to[1] = p->x[1];
}

float block_product(const uint4 *units, RAW raw, __local const STAGED *in, float in_scale) {
  float sum = 0.0f;
#pragma unroll
  for (int unit = 0; unit < UNITS; unit++) {
    float w[PER_UNIT];
    unpack(units[unit], w);
#pragma unroll
    for (int k = 0; k < PER_UNIT; k += 4) {
      const float4 v = LOCAL4(in + unit * PER_UNIT + k);
      sum += w[k] * v.x;
      sum += w[k + 1] * v.y;
      sum += w[k + 2] * v.z;
      sum += w[k + 3] * v.w;
    }
  }
  return sum;
}
#endif

// y = x·Wᵀ for many tokens. Each of the 16×16 work items of a group sums MR×MT elements
// of the result in registers, from blocks of 32 columns in local memory.

#define ROW_STRIDE (TILE_ROWS + 4) // stride of a column of the tile; adjacent columns use different banks
#define TOKEN_STRIDE (TILE_TOKENS + 4)

// Number is the type of operands in local memory. With HALF, each block has separate
// sums, which the kernel adds in float; otherwise one sum runs over all blocks.
#if HALF == HALF_NATIVE
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half Number;
typedef half4 Number4;
#define NUMBER(x) convert_half(x)
#define ADD_PRODUCT(sum, a, b) (sum) = fma(a, b, sum)
#elif HALF == HALF_EMULATED
typedef float Number;
typedef float4 Number4;
float rounded(float x) { // rounds like vstore_half, in less code
  if (fabs(x) < 0x1p-14f)
    return (x + 0.75f) - 0.75f; // rounds to a multiple of 2^-24
  const uint bits = as_uint(x);
  const float y = as_float((bits + 0xFFFu + (bits >> 13 & 1u)) & ~0x1FFFu);
  return fabs(y) < 65520.0f ? y : copysign(INFINITY, x);
}
#define NUMBER(x) rounded(x)
#define ADD_PRODUCT(sum, a, b) (sum) = rounded(fma(a, b, sum))
#else
typedef float Number;
typedef float4 Number4;
#define NUMBER(x) (x)
#define ADD_PRODUCT(sum, a, b) (sum) += (a) * (b)
#endif
#define NUMBERS4(p) (*(__local const Number4 *)(p))

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
matmul(MATRIX_ARGUMENTS) {
  MATRIX_PLACES;
  __local Number ALIGNED tile[32 * ROW_STRIDE];
  __local Number ALIGNED inputs[32 * TOKEN_STRIDE];
  const int id = get_local_id(0);
  const int mine_r = id % 16 * 4, mine_t = id / 16 * 4; // the work item also computes the four that are 64 further

  float sums[MT][MR];
#pragma unroll
  for (int t = 0; t < MT; t++)
#pragma unroll
    for (int r = 0; r < MR; r++)
      sums[t][r] = 0.0f;

  for (int block = 0; block < blocks; block++) {
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = id; i < TILE_ROWS * UNITS; i += THREADS) {
      const int r = i % TILE_ROWS, unit = i / TILE_ROWS;
      const size_t row = min(first_row + r, rows - 1);
      float w[PER_UNIT];
      unpack(code_at(codes, ((size_t)block * UNITS + unit) * rows + row), w);
      const float scale = scaled(w, scale_of(raw_at(scales, (size_t)block * rows + row)), unit);
#pragma unroll
      for (int k = 0; k < PER_UNIT; k++)
        tile[(unit * PER_UNIT + k) * ROW_STRIDE + r] = NUMBER(scale * w[k]);
    }
    for (int i = id; i < TILE_TOKENS * 8; i += THREADS) {
      const int t = i / 8, k = i % 8 * 4;
      const int token = min(first_token + t, tokens - 1), at = 32 * block + k;
      const float4 v = input4(x + from + (size_t)token * x_stride + at, cols - at, aligned);
      inputs[k * TOKEN_STRIDE + t] = NUMBER(v.x);
      inputs[(k + 1) * TOKEN_STRIDE + t] = NUMBER(v.y);
      inputs[(k + 2) * TOKEN_STRIDE + t] = NUMBER(v.z);
      inputs[(k + 3) * TOKEN_STRIDE + t] = NUMBER(v.w);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#if HALF
    Number of_block[MT][MR];
#pragma unroll
    for (int t = 0; t < MT; t++)
#pragma unroll
      for (int r = 0; r < MR; r++)
        of_block[t][r] = 0;
#else
#define of_block sums
#endif
#if HALF != HALF_EMULATED // unrolling would make the build slow
#pragma unroll 8
#endif
    for (int k = 0; k < 32; k++) {
      Number ALIGNED w[MR], ALIGNED v[MT];
#pragma unroll
      for (int g = 0; g < MR / 4; g++)
        ((Number4 *)w)[g] = NUMBERS4(tile + k * ROW_STRIDE + 64 * g + mine_r);
#pragma unroll
      for (int g = 0; g < MT / 4; g++)
        ((Number4 *)v)[g] = NUMBERS4(inputs + k * TOKEN_STRIDE + 64 * g + mine_t);
#pragma unroll
      for (int t = 0; t < MT; t++)
#pragma unroll
        for (int r = 0; r < MR; r++)
          ADD_PRODUCT(of_block[t][r], w[r], v[t]);
    }
#if HALF
#pragma unroll
    for (int t = 0; t < MT; t++)
#pragma unroll
      for (int r = 0; r < MR; r++)
        sums[t][r] += of_block[t][r];
#endif
  }

#pragma unroll
  for (int t = 0; t < MT; t++) {
    const int token = first_token + t / 4 * 64 + mine_t + t % 4;
    if (token >= tokens)
      continue;
#pragma unroll
    for (int r = 0; r < MR; r += 2)
      finish(y + to + (size_t)token * y_stride, first_row + r / 4 * 64 + mine_r + r % 4, rows, sums[t][r], sums[t][r + 1],
             biased ? bias : 0, result, factor);
  }
}

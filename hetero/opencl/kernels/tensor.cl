// y = x·Wᵀ for many tokens on NVIDIA's tensor cores, which multiply tf32 numbers (11
// significant bits with the range of floats) and add in float. Each of eight warps
// computes half of a tile's tokens and a quarter of its rows, in pieces of 16 tokens, 8
// rows and 8 columns. With EMULATED the kernel computes the same in floats, for tests
// on other devices.

#define WARP 32
#define PIECE_TOKENS 16
#define PIECE_ROWS 8
#define PIECE_COLS 8
#define PIECES_T (TILE_TOKENS / 2 / PIECE_TOKENS)
#define PIECES_R (TILE_ROWS / 4 / PIECE_ROWS)
#define CODES_EACH ((TILE_ROWS * UNITS + THREADS - 1) / THREADS) // units of codes that a work item unpacks per block
#define INPUTS_EACH (TILE_TOKENS * 8 / THREADS) // quads of the input that a work item reads per block
#define STRIDE 36 // stride of a row of 32 columns; the reads of a warp cover all banks

// rounded rounds to 11 bits, ties away from zero.
float rounded(float x) {
#ifdef EMULATED
  return as_float((as_uint(x) + 0x1000u) & ~0x1FFFu);
#else
  uint bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return as_float(bits);
#endif
}

void store4(__local float *to, float4 v) {
  *(__local float4 *)to = (float4)(rounded(v.x), rounded(v.y), rounded(v.z), rounded(v.w));
}

// The sums of a work item in a piece: for each of the tokens lane/4 and lane/4 + 8, two
// rows from lane%4·2 on.
typedef struct {
  float of[4];
} Sums;

#ifdef EMULATED
void multiply(Sums *sums, __local const float *inputs, __local const float *weights, int lane) {
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < PIECE_COLS; k++)
      sums->of[i] += inputs[(lane / 4 + i / 2 * 8) * STRIDE + k] * weights[(lane % 4 * 2 + i % 2) * STRIDE + k];
}
#endif

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
matmul(MATRIX_ARGUMENTS) {
  MATRIX_PLACES;
  __local float ALIGNED tile[TILE_ROWS * STRIDE];
  __local float ALIGNED inputs[TILE_TOKENS * STRIDE];
  const int id = get_local_id(0), lane = id % WARP, warp = id / WARP;
  const int mine_t = warp % 2 * (TILE_TOKENS / 2), mine_r = warp / 2 * (TILE_ROWS / 4);

  Sums sums[PIECES_T][PIECES_R];
#pragma unroll
  for (int t = 0; t < PIECES_T; t++)
#pragma unroll
    for (int r = 0; r < PIECES_R; r++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        sums[t][r].of[i] = 0.0f;

  // The kernel loads the next block while it multiplies this one.
  uint4 code[CODES_EACH];
  RAW raw[CODES_EACH];
  float4 input[INPUTS_EACH];
  for (int block = -1; block < blocks; block++) {
    if (block >= 0) {
      barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
      for (int n = 0; n < CODES_EACH; n++) {
        const int i = id + n * THREADS, r = i % TILE_ROWS, unit = i / TILE_ROWS;
        if (i >= TILE_ROWS * UNITS)
          break;
        float w[PER_UNIT];
        unpack(code[n], w);
        const float scale = scaled(w, scale_of(raw[n]), unit);
#pragma unroll
        for (int k = 0; k < PER_UNIT; k += 4)
          store4(tile + r * STRIDE + unit * PER_UNIT + k, scale * (float4)(w[k], w[k + 1], w[k + 2], w[k + 3]));
      }
#pragma unroll
      for (int n = 0; n < INPUTS_EACH; n++) {
        const int i = id + n * THREADS;
        store4(inputs + i / 8 * STRIDE + i % 8 * 4, input[n]);
      }
      barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (block + 1 < blocks) {
#pragma unroll
      for (int n = 0; n < CODES_EACH; n++) {
        const int i = id + n * THREADS;
        if (i >= TILE_ROWS * UNITS)
          break;
        const size_t row = min(first_row + i % TILE_ROWS, rows - 1), unit = i / TILE_ROWS;
        code[n] = code_at(codes, ((size_t)(block + 1) * UNITS + unit) * rows + row);
        raw[n] = raw_at(scales, (size_t)(block + 1) * rows + row);
      }
#pragma unroll
      for (int n = 0; n < INPUTS_EACH; n++) {
        const int i = id + n * THREADS, at = 32 * (block + 1) + i % 8 * 4;
        const int token = min(first_token + i / 8, tokens - 1);
        input[n] = input4(x + from + (size_t)token * x_stride + at, cols - at, aligned);
      }
    }
    if (block < 0)
      continue;
#pragma unroll
    for (int k = 0; k < 32; k += PIECE_COLS) {
#ifndef EMULATED
      uint a[PIECES_T][4], b[PIECES_R][2];
#pragma unroll
      for (int t = 0; t < PIECES_T; t++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          a[t][i] = as_uint(inputs[(mine_t + PIECE_TOKENS * t + lane / 4 + i % 2 * 8) * STRIDE + k + lane % 4 + i / 2 * 4]);
#pragma unroll
      for (int r = 0; r < PIECES_R; r++)
#pragma unroll
        for (int i = 0; i < 2; i++)
          b[r][i] = as_uint(tile[(mine_r + PIECE_ROWS * r + lane / 4) * STRIDE + k + lane % 4 + i * 4]);
#endif
#pragma unroll
      for (int t = 0; t < PIECES_T; t++)
#pragma unroll
        for (int r = 0; r < PIECES_R; r++) {
#ifdef EMULATED
          multiply(&sums[t][r], inputs + (mine_t + PIECE_TOKENS * t) * STRIDE + k, tile + (mine_r + PIECE_ROWS * r) * STRIDE + k, lane);
#else
          asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
              : "+f"(sums[t][r].of[0]), "+f"(sums[t][r].of[1]), "+f"(sums[t][r].of[2]), "+f"(sums[t][r].of[3])
              : "r"(a[t][0]), "r"(a[t][1]), "r"(a[t][2]), "r"(a[t][3]), "r"(b[r][0]), "r"(b[r][1]));
#endif
        }
    }
  }

#pragma unroll
  for (int t = 0; t < PIECES_T; t++)
#pragma unroll
    for (int half_of = 0; half_of < 2; half_of++) {
      const int token = first_token + mine_t + PIECE_TOKENS * t + 8 * half_of + lane / 4;
      if (token >= tokens)
        continue;
#pragma unroll
      for (int r = 0; r < PIECES_R; r++)
        finish(y + to + (size_t)token * y_stride, first_row + mine_r + PIECE_ROWS * r + lane % 4 * 2, rows,
               sums[t][r].of[2 * half_of], sums[t][r].of[2 * half_of + 1], biased ? bias : 0, result, factor);
    }
}

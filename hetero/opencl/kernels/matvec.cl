// y = x·Wᵀ for one token. A group computes tiles of ROWS rows one after the other,
// so that it applies the input operation once for several tiles. Each row has LANES
// work items, which process its blocks in turn. Work items of adjacent rows load
// adjacent units. A work item has DEEP blocks in flight: it issues the loads of DEEP
// blocks before it computes, and loads another block whenever it has used one.

#define THREADS (LANES * ROWS)
#define STEP_BLOCKS (LANES * DEEP) // blocks of the input in local memory at a time
// The size of the input in local memory, rounded up so that all work items call stage
// equally often.
#define STAGED_BLOCKS ((STEP_BLOCKS * PIECES + THREADS - 1) / THREADS * THREADS / PIECES)

// The location of the weights, except their codes.
typedef struct {
  __global const RAW *scales;
  int rows, blocks;
} Matrix;

// fetch starts to load a block of a row. Beyond the end it loads the last block, whose
// product the caller ignores. Mesa's rusticl 25.0 crashes if images are passed to functions that
// are not inlined.
__attribute__((always_inline)) void fetch(uint4 *units, RAW *raw, CODES codes, const Matrix *m, int block, int row) {
  const size_t b = min(block, m->blocks - 1), r = min(row, m->rows - 1);
#pragma unroll
  for (int unit = 0; unit < UNITS; unit++)
    units[unit] = code_at(codes, (b * UNITS + unit) * m->rows + r);
  *raw = raw_at(m->scales, b * m->rows + r);
}

// row_sum adds the sums of a row's work items.
float row_sum(__local const float *sums, int r) {
  float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int lane = 0; lane < LANES; lane++)
    sum[lane % 4] += sums[lane * ROWS + r];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// total adds count numbers.
float total(__local const float *numbers, int count) {
  float4 sum = (float4)(0.0f);
  for (int i = 0; i < count; i += 4)
    sum += LOCAL4(numbers + i);
  return (sum.x + sum.y) + (sum.z + sum.w);
}

// Weights begin at the given 128-bit unit of their buffer. TOGETHER: the weights are in
// the same buffer as the input. IMAGE: kernels read the codes through an image. APART:
// the result is in another buffer than the input.
__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
matvec(__global float *memory, uint unit, int rows_, int cols_, int from_, int source_, int side,
       float eps, int head_, int splits, int to, int result_, int biased_, float factor
#ifndef TOGETHER
       , __global const uchar *buffer
#endif
#ifdef IMAGE
       , CODES codes
#endif
#ifdef APART
       , __global float *y
#endif
) {
#ifdef TOGETHER
  __global const uchar *buffer = (__global const uchar *)memory;
#endif
  __global const uchar *weights = buffer + (size_t)unit * 16;
#ifndef IMAGE
  CODES codes = codes_of(weights);
#endif
#ifndef APART
  __global float *y = memory;
#endif
  const int rows = KNOWN(HEIGHT, rows_), cols = KNOWN(WIDTH, cols_), blocks = (cols + 31) / 32;
  const int source = KNOWN(SOURCE, source_), result = KNOWN(RESULT, result_), biased = KNOWN(BIASED, biased_);
  const Input in = {memory, KNOWN(FROM, from_), cols, source, side, KNOWN(HEAD, head_), splits};
  const Matrix m = {scales_of(weights, rows, blocks), rows, blocks};
  __global const float *bias = bias_of(weights, rows, blocks);

  __local STAGED ALIGNED staged[STAGED_BLOCKS * PER_BLOCK];
  __local float in_scales[STAGED_BLOCKS], ALIGNED most[THREADS], ALIGNED squares[THREADS], sums[2 * THREADS];
  const int id = get_local_id(0), lane = id / ROWS, r = id % ROWS;
  const int tiles = (rows + ROWS - 1) / ROWS, first = group_x(), step = groups_x();

  // Load the input before the weights, which are larger, so that it does not wait for
  // them.
  Piece piece;
  if (source != MERGED)
    take(&piece, &in, PIECE * id, 32 * STEP_BLOCKS);
  uint4 next[DEEP * UNITS];
  RAW raw[DEEP];
#pragma unroll
  for (int i = 0; i < DEEP; i++)
    fetch(next + i * UNITS, raw + i, codes, &m, lane + i * LANES, first * ROWS + r);
  if (source == MERGED)
    take(&piece, &in, PIECE * id, 32 * STEP_BLOCKS);

  float square = 0.0f, inverse = 1.0f;
  int turn = 0; // index of the current half of sums
  for (int tile = first; tile < tiles; tile += step) {
    const int row = tile * ROWS + id;
    float before = 0.0f; // summand besides the row's sum
    if (id < ROWS && row < rows) {
      before = biased ? bias[row] : 0.0f;
      if (result == ADD)
        before = y[to + row] + factor * before;
    }
    float acc = 0.0f;
    for (int begin = 0; begin < blocks; begin += STEP_BLOCKS) {
      const int here = min(STEP_BLOCKS, blocks - begin);
      if (tile == first || blocks > STEP_BLOCKS) {
        for (int from = 0; from < PIECES * here; from += THREADS) {
          if (tile > first || begin > 0 || from > 0)
            take(&piece, &in, 32 * begin + PIECE * (from + id), 32 * (begin + STEP_BLOCKS));
          if (source == NORMED) {
            square += tile == first ? squares_of(&piece) : 0.0f;
#pragma unroll
            for (int k = 0; k < PIECE / 4; k++)
              piece.x[k] *= piece.gain[k];
          }
          barrier(CLK_LOCAL_MEM_FENCE); // the input of the previous step has been used
          stage(&piece, staged, in_scales, most, from + id, id);
        }
        squares[id] = square;
        barrier(CLK_LOCAL_MEM_FENCE);
      }
      const int wraps = begin + STEP_BLOCKS >= blocks;
      const int more = !wraps || tile + step < tiles;
      const int next_begin = wraps ? 0 : begin + STEP_BLOCKS, next_tile = wraps ? tile + step : tile;
#pragma unroll
      for (int i = 0; i < DEEP; i++) {
        const int b = lane + i * LANES, at = min(b, here - 1);
        const float part = block_product(next + i * UNITS, raw[i], staged + at * PER_BLOCK, in_scales[at]);
        acc += b < here ? part : 0.0f;
        if (more)
          fetch(next + i * UNITS, raw + i, codes, &m, next_begin + b, next_tile * ROWS + r);
      }
    }

    // One barrier per tile is enough: before any work item writes this half of sums
    // again, all work items have written the other half.
    __local float *mine = sums + turn * THREADS;
    turn = 1 - turn;
    mine[id] = acc;
    if (source == NORMED && tile == first && id < ROWS)
      inverse = 1.0f / sqrt(total(squares, min(THREADS, PIECES * blocks)) / cols + eps);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (id < ROWS && row < rows) {
      const float sum = inverse * row_sum(mine, id);
      if (result == PLAIN)
        y[to + row] = before + sum;
      else if (result == ADD)
        y[to + row] = before + factor * sum;
      else if (row % 2 == 0)
        y[to + row / 2] = activation(before + sum, result) *
                          (inverse * row_sum(mine, id + 1) + (biased ? bias[row + 1] : 0.0f));
    }
  }
}

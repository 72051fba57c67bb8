// y = x·Wᵀ for one token. A group makes tiles of ROWS rows, one after the other, so
// that what it does to the input first is done once for several. A row has LANES
// work items that take its blocks in turns; neighbours along the rows read what
// lies side by side. Each takes DEEP blocks at a time, and the next are on their
// way meanwhile.

#define THREADS (LANES * ROWS)
#define CHUNK (LANES * DEEP) // blocks of the input that are in local memory at a time
#define STRIDE 36            // floats of each, so that lanes meet in different banks

// input4 returns four elements of the input, 0 beyond its end.
float4 input4(__global const float *x, int at, int left) {
  if (left >= 4)
    return at % 4 == 0 ? GLOBAL4(x + at) : vload4(0, x + at);
  float4 v = (float4)(0.0f);
  if (left > 0)
    v.x = x[at];
  if (left > 1)
    v.y = x[at + 1];
  if (left > 2)
    v.z = x[at + 2];
  return v;
}

// merged4 joins the parts of attention's result: sums of each split, whose
// greatest score and sum of weights are in states.
float4 merged4(__global const float *x, __global const float2 *states, int at, int cols, int head, int splits) {
  const int heads = cols / head, h = at / head;
  float greatest = -INFINITY;
  for (int s = 0; s < splits; s++)
    greatest = fmax(greatest, states[s * heads + h].x);
  float4 sum = (float4)(0.0f);
  float weight = 0.0f;
  for (int s = 0; s < splits; s++) {
    const float2 state = states[s * heads + h];
    const float e = exp(state.x - greatest);
    sum += e * GLOBAL4(x + s * cols + at);
    weight += e * state.y;
  }
  return sum / weight;
}

// fetch begins to read a work item's next blocks. What is beyond the end is that
// of the last block, which does not count.
void fetch(uint4 *codes_of, SCALE *scale_of_block, __global const uint4 *codes, SCALES *scales, int begin, int blocks,
           int lane, int row, int rows) {
#pragma unroll
  for (int i = 0; i < DEEP; i++) {
    const size_t block = min(begin + lane + i * LANES, blocks - 1);
#pragma unroll
    for (int unit = 0; unit < UNITS; unit++)
      codes_of[i * UNITS + unit] = codes[(block * UNITS + unit) * rows + row];
    scale_of_block[i] = scale_of(scales, block * rows + row);
  }
}

// row_sum adds what the work items of a row have summed up.
float row_sum(__local const float *sums, int r, int row, __global const float *bias, int biased) {
  float sum = biased ? bias[row] : 0.0f;
#pragma unroll
  for (int lane = 0; lane < LANES; lane++)
    sum += sums[lane * ROWS + r];
  return sum;
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
matvec(__global const uint4 *codes, SCALES *scales, int rows, int cols, __global const float *x, int from, int source,
       __global const float *side, float eps, int head, __global const int *state, __global float *y, int to,
       int result, __global const float *bias, int biased, float factor) {
  __local float ALIGNED chunk[CHUNK * STRIDE];
  __local float ALIGNED space[SPACE(THREADS)], sums[2 * THREADS];
  const int id = get_local_id(0), lane = id / ROWS;
  const int blocks = (cols + 31) / 32, tiles = (rows + ROWS - 1) / ROWS;
  const int first = get_group_id(0), step = get_num_groups(0);

  uint4 next[DEEP * UNITS];
  SCALE next_scale[DEEP];
  fetch(next, next_scale, codes, scales, 0, blocks, lane, min(first * ROWS + id % ROWS, rows - 1), rows);

  float inverse = 1.0f;
  if (source == NORMED) {
    float squares = 0.0f;
    for (int i = 4 * id; i < cols; i += 4 * THREADS) {
      const float4 v = input4(x, from + i, cols - i);
      squares += dot(v, v);
    }
    inverse = 1.0f / sqrt(group_sum(squares, space, id, THREADS) / cols + eps);
  }
  const int splits = source == MERGED ? state[1] : 0;

  int turn = 0; // which half of the sums is used
  for (int tile = first; tile < tiles; tile += step) {
    float acc = 0.0f;
    for (int begin = 0; begin < blocks; begin += CHUNK) {
      const int here = min(CHUNK, blocks - begin);
      if (tile == first || blocks > CHUNK) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = id; i < 8 * here; i += THREADS) {
          const int at = 32 * begin + 4 * i;
          float4 v;
          if (source == MERGED)
            v = at < cols ? merged4(x, (__global const float2 *)side, at, cols, head, splits) : (float4)(0.0f);
          else
            v = input4(x, from + at, cols - at);
          if (source == NORMED)
            v = v * inverse * input4(side, at, cols - at);
          *(__local float4 *)(chunk + i / 8 * STRIDE + i % 8 * 4) = v;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
      }
      uint4 now[DEEP * UNITS];
      SCALE scale[DEEP];
#pragma unroll
      for (int i = 0; i < DEEP * UNITS; i++)
        now[i] = next[i];
#pragma unroll
      for (int i = 0; i < DEEP; i++)
        scale[i] = next_scale[i];
      const int wraps = begin + CHUNK >= blocks;
      if (!wraps || tile + step < tiles)
        fetch(next, next_scale, codes, scales, wraps ? 0 : begin + CHUNK, blocks, lane,
              min((wraps ? tile + step : tile) * ROWS + id % ROWS, rows - 1), rows);
#pragma unroll
      for (int i = 0; i < DEEP; i++) {
        const int b = lane + i * LANES;
        __local const float *in = chunk + min(b, here - 1) * STRIDE;
        float sum = 0.0f;
#pragma unroll
        for (int unit = 0; unit < UNITS; unit++) {
          float w[PER_UNIT];
          unpack(now[i * UNITS + unit], w);
          const float s = scaled(w, scale[i], unit);
          float part = 0.0f;
#pragma unroll
          for (int k = 0; k < PER_UNIT; k += 4) {
            const float4 v = LOCAL4(in + unit * PER_UNIT + k);
            part += w[k] * v.x;
            part += w[k + 1] * v.y;
            part += w[k + 2] * v.z;
            part += w[k + 3] * v.w;
          }
          sum += s * part;
        }
        acc += b < here ? sum : 0.0f;
      }
    }

    // One barrier is enough: the other half of the sums is written before anybody
    // can write this one again.
    __local float *mine = sums + turn * THREADS;
    turn = 1 - turn;
    mine[id] = acc;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int row = tile * ROWS + id;
    if (id < ROWS && row < rows) {
      const float sum = row_sum(mine, id, row, bias, biased);
      if (result == PLAIN)
        y[to + row] = sum;
      else if (result == ADD)
        y[to + row] += factor * sum;
      else if (row % 2 == 0)
        y[to + row / 2] = activation(sum, result) * row_sum(mine, id + 1, row + 1, bias, biased);
    }
  }
}

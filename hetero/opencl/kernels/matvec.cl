// y = x·Wᵀ for one token. A group makes ROWS rows, each with LANES work items
// that take its blocks in turns: neighbours along the rows read what lies side by
// side.

#define THREADS (LANES * ROWS)
#define CHUNK 64  // blocks of the input that are in local memory at a time
#define STRIDE 36 // of them, so that lanes meet in different banks

// input4 returns four elements of the input, 0 beyond its end.
float4 input4(__global const float *x, int at, int left) {
  if (left >= 4)
    return vload4(0, x + at);
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
float4 merged4(__global const float *x, __global const float *states, int at, int cols, int head, int splits) {
  const int heads = cols / head, h = at / head;
  float greatest = -INFINITY;
  for (int s = 0; s < splits; s++)
    greatest = fmax(greatest, states[2 * (s * heads + h)]);
  float4 sum = (float4)(0.0f);
  float weight = 0.0f;
  for (int s = 0; s < splits; s++) {
    const float e = exp(states[2 * (s * heads + h)] - greatest);
    sum += e * vload4(0, x + s * cols + at);
    weight += e * states[2 * (s * heads + h) + 1];
  }
  return sum / weight;
}

__kernel __attribute__((reqd_work_group_size(THREADS, 1, 1))) void
matvec(__global const uint4 *codes, SCALES *scales, int rows, int cols, __global const float *x, int from, int source,
       __global const float *side, float eps, int head, __global const int *state, __global float *y, int to,
       int result, __global const float *bias, int biased, float factor) {
  __local float chunk[CHUNK * STRIDE];
  __local float sums[THREADS];
  const int id = get_local_id(0), lane = id / ROWS;
  const int first = get_group_id(0) * ROWS;
  const size_t row = min(first + id % ROWS, rows - 1);
  const int blocks = (cols + 31) / 32;

  float inverse = 1.0f;
  if (source == NORMED) {
    float squares = 0.0f;
    for (int i = 4 * id; i < cols; i += 4 * THREADS) {
      const float4 v = input4(x, from + i, cols - i);
      squares += dot(v, v);
    }
    inverse = 1.0f / sqrt(group_sum(squares, sums, id, THREADS) / cols + eps);
  }
  const int splits = source == MERGED ? state[1] : 0;

  float acc = 0.0f;
  for (int begin = 0; begin < blocks; begin += CHUNK) {
    const int here = min(CHUNK, blocks - begin);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = id; i < 8 * here; i += THREADS) {
      const int at = 32 * begin + 4 * i;
      float4 v;
      if (source == MERGED)
        v = at < cols ? merged4(x, side, at, cols, head, splits) : (float4)(0.0f);
      else
        v = input4(x, from + at, cols - at);
      if (source == NORMED)
        v = v * inverse * input4(side, at, cols - at);
      vstore4(v, 0, chunk + i / 8 * STRIDE + i % 8 * 4);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int b = lane; b < here; b += LANES) {
      const size_t block = begin + b;
      __local const float *in = chunk + b * STRIDE;
#pragma unroll
      for (int unit = 0; unit < UNITS; unit++) {
        float w[PER_UNIT];
        unpack(codes[(block * UNITS + unit) * rows + row], w);
        const float scale = scaled(w, scales, block * rows + row, unit);
        float part = 0.0f;
#pragma unroll
        for (int i = 0; i < PER_UNIT; i += 4) {
          const float4 v = vload4(0, in + unit * PER_UNIT + i);
          part += w[i] * v.x;
          part += w[i + 1] * v.y;
          part += w[i + 2] * v.z;
          part += w[i + 3] * v.w;
        }
        acc += scale * part;
      }
    }
  }

  sums[id] = acc;
  for (int step = LANES / 2; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < step)
      sums[id] += sums[id + step * ROWS];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const int out = first + id;
  if (id >= ROWS || out >= rows)
    return;
  const float sum = biased ? sums[id] + bias[out] : sums[id];
  if (result == PLAIN)
    y[to + out] = sum;
  else if (result == ADD)
    y[to + out] += factor * sum;
  else if (out % 2 == 0)
    y[to + out / 2] = activation(sum, result) * (biased ? sums[id + 1] + bias[out + 1] : sums[id + 1]);
}

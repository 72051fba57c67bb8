// The steps of a layer between its matmuls, for many tokens, including attention.

// y = x / rms(x) * gain, for each row.
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
norm(__global const float *x, int from, __global float *y, int cols, __global const float *gains, int gain, float eps) {
  __local float ALIGNED space[SPACE(256)];
  const int id = get_local_id(0);
  __global const float *in = x + from + (size_t)get_group_id(0) * cols;
  __global float *out = y + (size_t)get_group_id(0) * cols;
  float squares = 0.0f;
  for (int i = id; i < cols; i += 256)
    squares += in[i] * in[i];
  const float inverse = 1.0f / sqrt(group_sum(squares, space, id, 256) / cols + eps);
  for (int i = id; i < cols; i += 256)
    out[i] = in[i] * inverse * gains[gain + i];
}

// gated replaces each gate by act(gate) * value. The gates begin at element gates of x.
// The value of a gate is up elements after it. There are up gates.
__kernel void gated(__global float *x, int gates, int up, int kind) {
  const size_t i = get_global_id(0);
  __global float *gate = x + gates + i;
  if (i < (size_t)up)
    *gate = activation(*gate, kind) * gate[up];
}

// turned normalizes a head in local memory if QK_NORM is set, and rotates it. angles
// holds all cosines, then all sines.
void turned(__local float *head, __global const float *angles, __global const float *gain, float eps,
            __local float *space, int id, int size) {
#if QK_NORM
  float squares = 0.0f;
  for (int i = id; i < HEAD_DIM; i += size)
    squares += head[i] * head[i];
  const float inverse = 1.0f / sqrt(group_sum(squares, space, id, size) / HEAD_DIM + eps);
  for (int i = id; i < HEAD_DIM; i += size)
    head[i] = head[i] * inverse * gain[i];
  barrier(CLK_LOCAL_MEM_FENCE);
#endif
  for (int i = id; i < ROPE_DIM / 2; i += size) {
#if INTERLEAVE
    const int a = 2 * i, b = 2 * i + 1;
#else
    const int a = i, b = i + ROPE_DIM / 2;
#endif
    const float x = head[a], y = head[b], c = angles[i], s = angles[ROPE_DIM / 2 + i];
    head[a] = x * c - y * s;
    head[b] = y * c + x * s;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

// coded quantizes a head to 8-bit codes and returns their scale.
float coded(__local uchar *codes, __local const float *head, __local float *space, int id, int size) {
  float most = 0.0f;
  for (int i = id; i < HEAD_DIM; i += size)
    most = fmax(most, fabs(head[i]));
  most = group_max(most, space, id, size);
  const float inverse = most > 0x1p-100f ? 127.0f / most : 0.0f;
  for (int i = id; i < DIMS; i += size)
    codes[i] = i < HEAD_DIM ? convert_uchar_sat(rint(head[i] * inverse) + 128.0f) : 128;
  barrier(CLK_LOCAL_MEM_FENCE);
  return most > 0x1p-100f ? most / 127.0f : 0.0f;
}

// prepare rotates the queries of many tokens in place. It also rotates their keys and
// appends keys and values to the cache. A group processes one head of one token; group
// indices count query heads, then key heads, then value heads.
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void
prepare(__global float *qkv, __global const float *angles, __global uchar *kv, int position,
        __global const float *gains, int q_gain, int k_gain, float eps, int first_angle) {
  __local float head[DIMS], ALIGNED space[SPACE(64)];
  __local uchar codes[DIMS];
  const int id = get_local_id(0), slot = get_group_id(0), row = get_group_id(1), token = position + row;
  __global float *in = qkv + ((size_t)row * (HEADS + 2 * KV_HEADS) + slot) * HEAD_DIM;
  for (int i = id; i < HEAD_DIM; i += 64)
    head[i] = in[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  if (slot < HEADS + KV_HEADS)
    turned(head, angles + first_angle + (size_t)row * ROPE_DIM, gains + (slot < HEADS ? q_gain : k_gain), eps, space, id, 64);
  // Every group calls coded, although only keys and values need codes: PoCL 3.1 fails
  // if some groups skip a barrier.
  const float scale = coded(codes, head, space, id, 64);
  if (slot >= HEADS + KV_HEADS)
    keep_value(record(kv, token, slot - HEADS - KV_HEADS), token, codes, scale, id, 64);
  else if (slot >= HEADS)
    keep_key(record(kv, token, slot - HEADS), token, codes, scale, id, 64);
  else
    for (int i = id; i < HEAD_DIM; i += 64)
      in[i] = head[i];
}

#define MANY (8 * TILE_QUERIES) // work items of attend_batch: eight per query
#define KEYS (TILE_KEYS / 8) // keys of a tile that each work item multiplies
#define WIDTH (DIMS + 4) // width of a row in local memory
#define COLUMNS ((DIMS + 31) / 32) // quads of the result that each work item adds

// load_tile dequantizes the keys or values of a tile into local memory.
void load_tile(__local float *tile, __global uchar *kv, int kv_head, int from, int end, int values, int id) {
  for (int i = id; i < TILE_KEYS * DIMS / 16; i += MANY) {
    const int key = i % TILE_KEYS, g = i / TILE_KEYS, token = from + key;
    uint4 u = (uint4)(0x80808080u);
    float scale = 0.0f;
    if (token < end) {
      __global const uchar *r = record(kv, token, kv_head);
      u = ((__global const uint4 *)r)[values ? 64 * DIMS / 16 + token % 64 * (DIMS / 16) + g : g * 64 + token % 64];
      scale = ((__global const float *)(r + 128 * DIMS))[values * 64 + token % 64];
    }
    const uint words[4] = {u.x, u.y, u.z, u.w};
#pragma unroll
    for (int j = 0; j < 4; j++)
      *(__local float4 *)(tile + key * WIDTH + 16 * g + 4 * j) =
          scale * (float4)(BYTE(words[j], 0), BYTE(words[j], 1), BYTE(words[j], 2), BYTE(words[j], 3));
  }
}

// attend_batch computes the attention of one head for rows begin to tokens-1 of a
// chunk. prepare has rotated the queries and stored keys and values in the cache. A
// group computes TILE_QUERIES rows and reads the context in tiles of TILE_KEYS tokens.
__kernel __attribute__((reqd_work_group_size(MANY, 1, 1))) void
attend_batch(__global const float *qkv, __global uchar *kv, int position, int begin, int tokens, float scale,
            int window, __global float *y) {
  __local float ALIGNED queries[TILE_QUERIES * WIDTH], ALIGNED tile[TILE_KEYS * WIDTH], weights[TILE_QUERIES * (TILE_KEYS + 1)];
  const int id = get_local_id(0), head = get_group_id(1), kv_head = head / GROUP;
  const int first = begin + get_group_id(0) * TILE_QUERIES, mine = id / 8, part = id % 8;
  const int last = min(first + TILE_QUERIES, tokens) - 1;
  for (int i = id; i < TILE_QUERIES * DIMS; i += MANY) {
    const int row = min(first + i / DIMS, tokens - 1), at = i % DIMS;
    queries[i / DIMS * WIDTH + at] =
        at < HEAD_DIM ? scale * qkv[((size_t)row * (HEADS + 2 * KV_HEADS) + head) * HEAD_DIM + at] : 0.0f;
  }
  float4 sums[COLUMNS];
#pragma unroll
  for (int c = 0; c < COLUMNS; c++)
    sums[c] = (float4)(0.0f);
  float greatest = -INFINITY, weight = 0.0f;
  const int at = position + first + mine; // position of the query
  const int end = position + last + 1;
  const int oldest = window > 0 ? max(0, position + first - window + 1) : 0;

  for (int from = oldest / TILE_KEYS * TILE_KEYS; from < end; from += TILE_KEYS) {
    barrier(CLK_LOCAL_MEM_FENCE);
    load_tile(tile, kv, kv_head, from, end, 0, id);
    barrier(CLK_LOCAL_MEM_FENCE);
    float scores[KEYS];
#pragma unroll
    for (int j = 0; j < KEYS; j++)
      scores[j] = 0.0f;
    for (int i = 0; i < DIMS; i += 4) {
      const float4 q = LOCAL4(queries + mine * WIDTH + i);
#pragma unroll
      for (int j = 0; j < KEYS; j++)
        scores[j] += dot(q, LOCAL4(tile + (part + 8 * j) * WIDTH + i));
    }
#pragma unroll
    for (int j = 0; j < KEYS; j++) {
      const int token = from + part + 8 * j;
      if (token > at || (window > 0 && token <= at - window))
        scores[j] = -INFINITY;
      weights[mine * (TILE_KEYS + 1) + part + 8 * j] = scores[j];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    load_tile(tile, kv, kv_head, from, end, 1, id);
    const float before = greatest;
    for (int j = 0; j < TILE_KEYS; j++)
      greatest = fmax(greatest, weights[mine * (TILE_KEYS + 1) + j]);
    barrier(CLK_LOCAL_MEM_FENCE);
    const float decay = before == greatest ? 1.0f : exp(before - greatest);
#pragma unroll
    for (int j = 0; j < KEYS; j++)
      weights[mine * (TILE_KEYS + 1) + part + 8 * j] = scores[j] == -INFINITY ? 0.0f : exp(scores[j] - greatest);
    barrier(CLK_LOCAL_MEM_FENCE);
    weight *= decay;
#pragma unroll
    for (int c = 0; c < COLUMNS; c++)
      sums[c] *= decay;
    for (int j = 0; j < TILE_KEYS; j++) {
      const float p = weights[mine * (TILE_KEYS + 1) + j];
      weight += p;
#pragma unroll
      for (int c = 0; c < COLUMNS; c++)
        // Work items beyond the last quad compute the last quad again.
        sums[c] += p * LOCAL4(tile + j * WIDTH + min(32 * c + 4 * part, DIMS - 4));
    }
  }
  if (first + mine >= tokens)
    return;
  __global float *out = y + ((size_t)(first + mine) * HEADS + head) * HEAD_DIM;
#pragma unroll
  for (int c = 0; c < COLUMNS; c++) {
    const int i = 32 * c + 4 * part;
    const float4 v = sums[c] / weight;
    const float quad[4] = {v.x, v.y, v.z, v.w};
    for (int j = 0; j < 4; j++)
      if (i + j < HEAD_DIM)
        out[i + j] = quad[j];
  }
}

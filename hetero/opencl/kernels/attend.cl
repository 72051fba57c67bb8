// Attention of one token. A group has ONE work items and processes ONE tokens of the
// context at a time. Network.attendLocal in exec/gpupass computes its local memory.

#define OWN ((DIMS + ONE - 1) / ONE) // elements of a head that each work item prepares
#define HELD (DIMS < ONE ? DIMS : ONE) // work items that prepare at least one element
#define SIXTEENS (DIMS / 16) // 128-bit units of a key or value
#define TURNS (ONE / SIXTEENS) // tokens whose values are added at a time
#define ROUNDS ((ONE + TURNS - 1) / TURNS) // rounds for the values of ONE tokens
#define SLICES (ONE / DIMS) // work items that share an element of the result

// The rotation of element i: the index of its angle, the other element of its pair,
// and the sign of the sine.
#if INTERLEAVE
#define ANGLE(i) ((i) / 2)
#define OTHER(i) ((i) ^ 1)
#define SIGN(i) ((i) % 2 == 0 ? -1.0f : 1.0f)
#else
#define ANGLE(i) ((i) < ROPE_DIM / 2 ? (i) : (i)-ROPE_DIM / 2)
#define OTHER(i) ((i) < ROPE_DIM / 2 ? (i) + ROPE_DIM / 2 : (i)-ROPE_DIM / 2)
#define SIGN(i) ((i) < ROPE_DIM / 2 ? -1.0f : 1.0f)
#endif

// all_max and both_sum are group_max and group_sum of vectors, over the work items
// that prepare elements. The caller must not reuse their space.
#define JOIN(name, type, join)                                                                                         \
  type name(type value, __local type *space, int id) {                                                                 \
    if (id < HELD)                                                                                                     \
      space[id] = value;                                                                                               \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                                      \
    if (id < HELD / 8) {                                                                                               \
      for (int i = 1; i < 8; i++)                                                                                      \
        value = join(value, space[id + i * (HELD / 8)]);                                                               \
      space[HELD + id] = value;                                                                                        \
    }                                                                                                                  \
    barrier(CLK_LOCAL_MEM_FENCE);                                                                                      \
    value = space[HELD];                                                                                               \
    for (int i = 1; i < HELD / 8; i++)                                                                                 \
      value = join(value, space[HELD + i]);                                                                            \
    return value;                                                                                                      \
  }
#define PLUS(a, b) ((a) + (b))
JOIN(all_max, float4, fmax)
#if QK_NORM
JOIN(both_sum, float2, PLUS)
#endif

// The kernel quantizes a query to 16 bits and scales its greatest element to
// QUERY_MOST. It splits each element into two codes of 8 bits to multiply them by keys.
#define QUERY_MOST 32639 // 127 * 256 + 127

// dot16 is the dot product of 16 codes of a key and of a query.
int dot16(uint4 key, __local const uint4 *high, __local const uint4 *low) {
  const uint4 k = key ^ 0x80808080u, h = *high, l = *low;
  const int upper = dot4(k.x, h.x, dot4(k.y, h.y, dot4(k.z, h.z, dot4(k.w, h.w, 0))));
  return 256 * upper + dot4(k.x, l.x, dot4(k.y, l.y, dot4(k.z, l.z, dot4(k.w, l.w, 0))));
}

// A token's key, and the scales of key and value.
typedef struct {
  uint4 codes[SIXTEENS];
  float scale, value_scale;
} Key;

void fetch_key(Key *key, __global uchar *kv, int token, int kv_head) {
  __global const uchar *r = record(kv, token, kv_head);
  __global const float *scales = (__global const float *)(r + 128 * DIMS);
#pragma unroll
  for (int g = 0; g < SIXTEENS; g++)
    key->codes[g] = ((__global const uint4 *)r)[g * 64 + token % 64];
  key->scale = scales[token % 64];
  key->value_scale = scales[64 + token % 64];
}

// fetch_values loads a work item's part of the values of some tokens: sixteen
// elements of every TURNS-th token.
void fetch_values(uint4 *values, __global uchar *kv, int from, int here, int kv_head, int turn, int sixteen) {
#pragma unroll
  for (int j = 0; j < ROUNDS; j++) {
    const int token = from + min(turn + j * TURNS, here - 1);
    values[j] = ((__global const uint4 *)(record(kv, token, kv_head) + 64 * DIMS + token % 64 * DIMS))[sixteen];
  }
}

// attend_single computes the attention of one head over one split of the context. It
// first rotates the token's query and key. For the first head of each KV head, the
// group whose split contains the token also appends the key and value to the cache.
// sums receives the weighted sums of values, states the greatest score and the sum of
// weights. matvec merges the splits and divides by the weights.
//
// All operands except keys and values are elements of memory; element 0 is the token's
// position. A group issues all loads before it waits for any. It loads the next tokens'
// keys and values as soon as it has used the current ones.
__kernel __attribute__((reqd_work_group_size(ONE, 1, 1))) void
attend_single(__global float *memory, __global uchar *kv, int qkv, int angles, int q_gain, int k_gain,
           float eps, float scale, int window, int sums, int states) {
  __local float before_q[DIMS], before_k[DIMS], ALIGNED space[SPACE(ONE)], weights[ONE];
  __local float4 greatest_of[SPACE(HELD)];
  __local float ALIGNED parts[TURNS * DIMS];
  __local uchar ALIGNED codes[DIMS], ALIGNED value_codes[DIMS], ALIGNED q_high[DIMS], ALIGNED q_low[DIMS];
  const int id = get_local_id(0), head = group_x(), split = group_y(), kv_head = head / GROUP;
  const int sixteen = id % SIXTEENS, turn = id / SIXTEENS;
  const int position = as_int(memory[0]);

  float2 qk[OWN], turn_by[OWN]; // elements of query and key; cosine and sine
  float v[OWN];
#if QK_NORM
  __local float2 squares[SPACE(HELD)];
  float2 gain[OWN];
#endif
#pragma unroll
  for (int j = 0; j < OWN; j++) {
    const int i = min(id + j * ONE, HEAD_DIM - 1);
    __global const float *in = memory + qkv + i;
    qk[j] = (float2)(in[head * HEAD_DIM], in[(HEADS + kv_head) * HEAD_DIM]);
    v[j] = in[(HEADS + KV_HEADS + kv_head) * HEAD_DIM];
    if (i < ROPE_DIM)
      turn_by[j] = (float2)(memory[angles + ANGLE(i)], SIGN(i) * memory[angles + ROPE_DIM / 2 + ANGLE(i)]);
#if QK_NORM
    gain[j] = (float2)(memory[q_gain + i], memory[k_gain + i]);
#endif
  }
  const int oldest = window > 0 ? max(0, position - window + 1) : 0;
  const int splits = groups_y();
  const int span = (position + splits - oldest) / splits; // of position+1-oldest tokens, rounded up
  const int begin = min(oldest + split * span, position + 1), end = min(begin + span, position + 1);
  Key key;
  uint4 values[ROUNDS];
  fetch_key(&key, kv, min(begin + id, max(end - 1, 0)), kv_head);
  fetch_values(values, kv, begin, min(ONE, end - begin), kv_head, turn, sixteen);

#if QK_NORM
  float2 square = (float2)(0.0f);
#pragma unroll
  for (int j = 0; j < OWN; j++)
    square += id + j * ONE < HEAD_DIM ? qk[j] * qk[j] : (float2)(0.0f);
  const float2 inverse = 1.0f / sqrt(both_sum(square, squares, id) / HEAD_DIM + eps);
#pragma unroll
  for (int j = 0; j < OWN; j++)
    qk[j] *= inverse * gain[j];
#endif
#pragma unroll
  for (int j = 0; j < OWN; j++)
    if (id + j * ONE < HEAD_DIM) {
      before_q[id + j * ONE] = qk[j].x;
      before_k[id + j * ONE] = qk[j].y;
    }
  barrier(CLK_LOCAL_MEM_FENCE);
  float4 most = (float4)(0.0f); // of the key, value and query
#pragma unroll
  for (int j = 0; j < OWN; j++) {
    const int i = id + j * ONE;
    if (i < ROPE_DIM)
      qk[j] = qk[j] * turn_by[j].x + (float2)(before_q[OTHER(i)], before_k[OTHER(i)]) * turn_by[j].y;
    if (i < HEAD_DIM)
      most = fmax(most, fabs((float4)(qk[j].y, v[j], qk[j].x, 0.0f)));
  }
  most = all_max(most, greatest_of, id);
  const float key_up = most.x > 0x1p-100f ? 127.0f / most.x : 0.0f, value_up = most.y > 0x1p-100f ? 127.0f / most.y : 0.0f;
  const float key_scale = key_up > 0.0f ? most.x / 127.0f : 0.0f, value_scale = value_up > 0.0f ? most.y / 127.0f : 0.0f;
  const float q_up = most.z > 0x1p-100f ? QUERY_MOST / most.z : 0.0f, q_scale = scale * most.z / QUERY_MOST;
#pragma unroll
  for (int j = 0; j < OWN; j++) {
    const int i = id + j * ONE;
    if (i < DIMS) {
      codes[i] = i < HEAD_DIM ? convert_uchar_sat(rint(qk[j].y * key_up) + 128.0f) : 128;
      value_codes[i] = i < HEAD_DIM ? convert_uchar_sat(rint(v[j] * value_up) + 128.0f) : 128;
      const int query = i < HEAD_DIM ? clamp(convert_int_rte(qk[j].x * q_up), -QUERY_MOST, QUERY_MOST) : 0;
      q_high[i] = (uchar)((query + 128) >> 8);
      q_low[i] = (uchar)query;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (begin <= position && position < end && head % GROUP == 0) {
    keep_key(record(kv, position, kv_head), position, codes, key_scale, id, ONE);
    keep_value(record(kv, position, kv_head), position, value_codes, value_scale, id, ONE);
  }

  float greatest = -INFINITY, weight = 0.0f; // greatest of all tokens, weight of this work item's tokens
  float sum[16];
#pragma unroll
  for (int i = 0; i < 16; i++)
    sum[i] = 0.0f;
  for (int from = begin; from < end; from += ONE) {
    const int next = from + ONE, here = min(ONE, end - from);
    // Local memory holds the newest token's codes; the cache may not hold them yet.
    const int newest = from + id == position;
    int sum_of_codes = 0;
#pragma unroll
    for (int g = 0; g < SIXTEENS; g++)
      sum_of_codes += dot16(newest ? ((__local const uint4 *)codes)[g] : key.codes[g],
                            (__local const uint4 *)q_high + g, (__local const uint4 *)q_low + g);
    const float score = id < here ? sum_of_codes * q_scale * (newest ? key_scale : key.scale) : -INFINITY;
    const float of_value = newest ? value_scale : key.value_scale;
    if (next < end)
      fetch_key(&key, kv, min(next + id, end - 1), kv_head);
    const float before = greatest;
    greatest = fmax(greatest, group_max(score, space, id, ONE));
    const float decay = before == greatest ? 1.0f : exp(before - greatest);
    const float p = id < here ? exp(score - greatest) : 0.0f;
    weight = weight * decay + p;
    weights[id] = p * of_value;
    barrier(CLK_LOCAL_MEM_FENCE);
#pragma unroll
    for (int i = 0; i < 16; i++)
      sum[i] *= decay;
#pragma unroll
    for (int j = 0; j < ROUNDS; j++) {
      const int at = turn + j * TURNS;
      if (turn < TURNS && at < here) {
        const uint4 u = from + at == position ? ((__local const uint4 *)value_codes)[sixteen] : values[j];
        const uint words[4] = {u.x, u.y, u.z, u.w};
#pragma unroll
        for (int i = 0; i < 16; i++)
          sum[i] += weights[at] * BYTE(words[i / 4], i % 4);
      }
    }
    if (next < end)
      fetch_values(values, kv, next, min(ONE, end - next), kv_head, turn, sixteen);
  }

  if (turn < TURNS)
#pragma unroll
    for (int i = 0; i < 16; i += 4)
      *(__local float4 *)(parts + turn * DIMS + 16 * sixteen + i) = (float4)(sum[i], sum[i + 1], sum[i + 2], sum[i + 3]);
  weight = group_sum(weight, space, id, ONE);
#if SLICES > 1 // each slice adds every SLICES-th part
  const int slice = id / DIMS, column = id % DIMS;
  if (slice < SLICES) {
    float all = 0.0f;
    for (int j = slice; j < TURNS; j += SLICES)
      all += parts[j * DIMS + column];
    parts[slice * DIMS + column] = all;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#define LEFT SLICES
#else
#define LEFT TURNS
#endif
  for (int i = id; i < HEAD_DIM; i += ONE) {
    float all = 0.0f;
    for (int j = 0; j < LEFT; j++)
      all += parts[j * DIMS + i];
    memory[sums + (split * HEADS + head) * HEAD_DIM + i] = all;
  }
  if (id == 0)
    *(__global float2 *)(memory + states + 2 * (split * HEADS + head)) = (float2)(greatest, weight);
}

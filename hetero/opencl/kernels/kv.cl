// Keys and values are 8-bit codes with a scale for each token and head. A layer's
// cache consists of records, one per block of 64 tokens and KV head:
//
//	keys    [DIMS/16][64][16]  so that work items of neighbouring tokens load
//	                           adjacent 128-bit units
//	values  [64][DIMS]
//	scales  [64] floats of keys, [64] of values
//
// DIMS is HEAD_DIM rounded up to a multiple of 16. Code 128 means zero.

#define DIMS ((HEAD_DIM + 15) / 16 * 16)
#define RECORD (128 * DIMS + 512)
#define GROUP (HEADS / KV_HEADS)

__global uchar *record(__global uchar *kv, int token, int kv_head) {
  return kv + ((size_t)(token / 64) * KV_HEADS + kv_head) * RECORD;
}

void keep_key(__global uchar *to, int token, __local const uchar *codes, float scale, int id, int size) {
  for (int i = id; i < DIMS; i += size)
    to[(i / 16 * 64 + token % 64) * 16 + i % 16] = codes[i];
  if (id == 0)
    ((__global float *)(to + 128 * DIMS))[token % 64] = scale;
}

void keep_value(__global uchar *to, int token, __local const uchar *codes, float scale, int id, int size) {
  for (int i = id; i < DIMS; i += size)
    to[64 * DIMS + token % 64 * DIMS + i] = codes[i];
  if (id == 0)
    ((__global float *)(to + 128 * DIMS + 256))[token % 64] = scale;
}

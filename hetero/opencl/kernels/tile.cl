// Shared code of GEMM kernels. A group of 256 work items computes a tile of 16·MR
// rows and 16·MT tokens.

#define TILE_ROWS (16 * MR)
#define TILE_TOKENS (16 * MT)
#define THREADS 256

// Weights begin at unit from of their buffer. With IMAGE, the last argument is the image
// of the codes.
#ifdef IMAGE
#define IMAGE_ARGUMENT , CODES codes
#define CODES_PLACE ((void)0)
#else
#define IMAGE_ARGUMENT
#define CODES_PLACE CODES codes = codes_of(weights)
#endif
#define MATRIX_ARGUMENTS                                                                                               \
  __global const uchar *buffer, int rows, int cols, __global const float *x, int from, int x_stride, int tokens,       \
      __global float *y, int to, int y_stride, int result, int biased, float factor, uint unit IMAGE_ARGUMENT

// The location of a group's tile: weights, scales and bias, and the first row and
// token.
#define MATRIX_PLACES                                                                                                  \
  __global const uchar *weights = buffer + (size_t)unit * 16;                                                          \
  CODES_PLACE;                                                                                                         \
  const int first_row = get_group_id(0) * TILE_ROWS, first_token = get_group_id(1) * TILE_TOKENS;                      \
  const int blocks = (cols + 31) / 32;                                                                                 \
  __global const RAW *scales = scales_of(weights, rows, blocks);                                                       \
  __global const float *bias = bias_of(weights, rows, blocks);                                                         \
  const int aligned = from % 4 == 0 && x_stride % 4 == 0

// input4 loads four elements of a row. left is the number of remaining elements;
// missing elements are 0.
float4 input4(__global const float *x, int left, int aligned) {
  if (left >= 4)
    return aligned ? GLOBAL4(x) : vload4(0, x);
  float4 v = (float4)(0.0f);
  if (left > 0)
    v.x = x[0];
  if (left > 1)
    v.y = x[1];
  if (left > 2)
    v.z = x[2];
  return v;
}

// finish stores the sums of two rows, the first of which is even.
void finish(__global float *out, int row, int rows, float even, float odd, __global const float *bias, int result,
            float factor) {
  if (row >= rows)
    return;
  const int both = row + 1 < rows;
  if (bias) {
    even += bias[row];
    if (both)
      odd += bias[row + 1];
  }
  if (result == PLAIN) {
    out[row] = even;
    if (both)
      out[row + 1] = odd;
  } else if (result == ADD) {
    out[row] += factor * even;
    if (both)
      out[row + 1] += factor * odd;
  } else {
    out[row / 2] = activation(even, result) * odd;
  }
}

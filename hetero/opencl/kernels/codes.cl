// Kernels read units of 128 bits from a buffer or, with IMAGE, from a one-row image over
// its beginning. Images are parameters: OpenCL has no variables of image type.
#ifdef IMAGE
#define CODES __read_only image1d_buffer_t
#define code_at(codes, at) read_imageui(codes, (int)(at))
#else
#define CODES __global const uint4 *
#define code_at(codes, at) (codes)[at]
#endif

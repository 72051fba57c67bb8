__kernel void probe(__global float *x) { x[get_global_id(0)] += 1.0f; }

// sweep reads memory at the highest rate: neighbouring work items load adjacent
// units.
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void
sweep(CODES x, int count, __global uint *out) {
  uint4 sum = (uint4)(0);
  const size_t step = get_global_size(0);
  for (size_t i = get_global_id(0); i + 3 * step < (size_t)count; i += 4 * step)
    sum ^= code_at(x, i) ^ code_at(x, i + step) ^ code_at(x, i + 2 * step) ^ code_at(x, i + 3 * step);
  const uint all = sum.x ^ sum.y ^ sum.z ^ sum.w;
  if (all == 0x12345678u) // almost never true: prevents the removal of the loop
    out[0] = all;
}

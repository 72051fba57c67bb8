// Definitions shared by all kernels. FORMAT is one of these values, see Format in
// layout.go.
#define Q4_SCALE 0  // 4 bits, zero at 8, one half scale for 32
#define Q4_OFFSET 1 // 4 bits, scale and offset in float for 32
#define Q8_SCALE 2  // 8 bits, zero at 128, one half scale for 32
#define Q8_OFFSET 3 // 8 bits, zero at 128, scale and offset in float for 32
#define Q8_HALVES 4 // 8 bits, zero at 128, a float scale for 16
#define F16 5
#define BF16 6
#define F32 7

// The operation on the sums of a matmul, see OutputOp.
#define PLAIN 0 // y = sum
#define ADD 1   // y += factor * sum
// Even rows are gates, odd rows the gated values: y = act(even) * odd.
#define SILU_PAIRS 2
#define GELU_TANH_PAIRS 3
#define GELU_ERF_PAIRS 4

// The operation on the input of a GEMV, see InputOp.
#define AS_IT_IS 0
#define NORMED 1 // divided by its root mean square, times a gain
#define MERGED 2 // merged splits of attention, see attend_single

// The instruction for dot products of codes, see Info.Dot.
#define DOT_PORTABLE 0
#define DOT_KHR 1
#define DOT_PTX 2

// The arithmetic of GEMM, see Arithmetic; floats by default.
#define HALF_NATIVE 1
#define HALF_EMULATED 2

#pragma OPENCL FP_CONTRACT ON

// The index of this group and the number of groups. NVIDIA's compiler implements
// OpenCL's functions with registers that the OpenCL driver sets. The CUDA driver, which
// runs graphs, does not set them. The hardware registers have the same values unless a
// driver divides a launch.
#ifdef GRAPHS
#define HARDWARE(name, place)                                                                                          \
  int name(void) {                                                                                                     \
    int value;                                                                                                         \
    asm("mov.u32 %0, %%" place ";" : "=r"(value));                                                                     \
    return value;                                                                                                      \
  }
HARDWARE(group_x, "ctaid.x")
HARDWARE(group_y, "ctaid.y")
HARDWARE(groups_x, "nctaid.x")
HARDWARE(groups_y, "nctaid.y")
#else
#define group_x() get_group_id(0)
#define group_y() get_group_id(1)
#define groups_x() get_num_groups(0)
#define groups_y() get_num_groups(1)
#endif

// Converts a small integer to float: it becomes the low bits of the float 2^23, which
// is cheaper than a conversion.
#define SMALL(bits, zero) (as_float(0x4B000000u | (bits)) - (8388608.0f + (zero)))
#define NIBBLE(word, i, zero) SMALL(((word) >> (4 * (i))) & 15u, zero)
#define BYTE(word, i) SMALL(((word) >> (8 * (i))) & 255u, 128.0f)

float activation(float x, int kind) {
  switch (kind) {
  case SILU_PAIRS:
    return x / (1.0f + exp(-x));
  case GELU_TANH_PAIRS:
    return x / (1.0f + exp(-1.5957691216f * x * (1.0f + 0.044715f * x * x)));
  }
  return 0.5f * x * (1.0f + erf(0.70710678f * x));
}

// Four numbers at a multiple of 16 bytes, in one access; vload4 takes four
// accesses, because it allows any address.
#define LOCAL4(p) (*(__local const float4 *)(p))
#define GLOBAL4(p) (*(__global const float4 *)(p))
#define ALIGNED __attribute__((aligned(16)))

// dot4 is the dot product of four signed codes.
#if DOT == DOT_KHR
int dot4(uint a, uint b, int sum) { return sum + dot_4x8packed_ss_int(a, b); }
#elif DOT == DOT_PTX
int dot4(uint a, uint b, int sum) {
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(sum));
  return sum;
}
#else
int dot4(uint a, uint b, int sum) {
  const char4 v = as_char4(a), w = as_char4(b);
  return sum + v.x * w.x + v.y * w.y + v.z * w.z + v.w * w.w;
}
#endif

// SPACE is the number of floats of local memory for reductions over size work
// items.
#define SPACE(size) ((size) + (size) / 8)

// group_sum returns the sum over all work items to each of them. It takes two
// steps, over groups of eight and then over the rest, because barriers cost more
// than reads.
float group_sum(float value, __local float *space, int id, int size) {
  barrier(CLK_LOCAL_MEM_FENCE);
  space[id] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (id < size / 8) {
    const float4 v = LOCAL4(space + 8 * id) + LOCAL4(space + 8 * id + 4);
    space[size + id] = (v.x + v.y) + (v.z + v.w);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  float4 sum = (float4)(0.0f);
  for (int i = 0; i < size / 8; i += 4)
    sum += LOCAL4(space + size + i);
  return (sum.x + sum.y) + (sum.z + sum.w);
}

float group_max(float value, __local float *space, int id, int size) {
  barrier(CLK_LOCAL_MEM_FENCE);
  space[id] = value;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (id < size / 8) {
    const float4 v = fmax(LOCAL4(space + 8 * id), LOCAL4(space + 8 * id + 4));
    space[size + id] = fmax(fmax(v.x, v.y), fmax(v.z, v.w));
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  float4 most = LOCAL4(space + size);
  for (int i = 4; i < size / 8; i += 4)
    most = fmax(most, LOCAL4(space + size + i));
  return fmax(fmax(most.x, most.y), fmax(most.z, most.w));
}

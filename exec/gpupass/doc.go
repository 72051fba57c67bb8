// Package gpupass runs the forward pass of a model on an OpenCL device: norms,
// matmuls, RoPE, attention over an 8-bit KV cache, activations and the output
// matrix. The host only looks up embedding rows.
//
// # Why a second forward pass exists
//
// Package exec runs a layer as a queue of matmuls on the CPU and can offload their
// rows, but each offloaded matmul costs a launch, a wait and two copies of
// activations. On a GPU that computes whole layers, the activations and the KV
// cache stay in device memory, a token takes five launches per layer and one wait,
// and the norms and activations run inside the matmul kernels. The code of exec
// assumes host memory between all steps, so it cannot express this. The price is
// that a family works here only if every one of its features has a kernel;
// checkSupported rejects the others, which then run on the CPU.
//
// # What keeps it equal to the first
//
// Package exec defines the model: this package reads the same arch.Spec and the
// same weights through the interface exec.Network, and exec runs everything around
// it (tokens, embedding, sampling, layers that stay on the CPU). Tests compare the
// logits of both:
//
//   - TestFamiliesMatchTheCPU and TestQuantizedFilesMatchTheCPU: all supported
//     families and weight types, prompts in chunks and single tokens.
//   - TestLastLayersMatchTheCPU and TestQuantizedLastLayers: every number of
//     layers on the device.
//   - TestPromptsInFewerBits, TestImagesChangeNothing,
//     TestGatheredWeightsChangeNothing, TestRecordedTokensAreTheSame and
//     TestContextSplitsAgree: every variant against the plain one.
//
// A new feature of exec's pass must be added here or rejected in checkSupported.
//
// # One token
//
//	norm, queries, keys and values    one GEMV where the weight types agree
//	RoPE, KV append, attention        over splits of the context in parallel
//	merge of the splits, output       added to the residual stream
//	norm, gate, up and activation     rows interleaved, so that pairs meet
//	down                              added to the residual stream
//
// Kernel arguments are set when the model is loaded. The values that change from
// token to token are in one buffer, which is written together with the token's
// embedding. So the tokens after the first of a sequence can be replayed as one
// command where the driver supports graphs, see opencl.Graphs. Prefill chunks use
// GEMM kernels, eight launches per layer.
//
// After its keys and values the last layer computes only the rows from the first to
// the last whose logits are wanted, and none in a chunk without any. Queries are
// computed for all rows, because they share a matmul with keys and values.
//
// If the device's memory does not hold the model, the device computes its last
// layers. The input is then the residual stream of the CPU's layers instead of
// embedding rows.
//
// # Arithmetic
//
// Activations and sums are float32. As on the CPU, GEMVs with quantized weights
// quantize their input to 8 bits. Attention quantizes queries to 16 bits, so that
// it multiplies them with keys as integers. Keys and values are 8-bit codes with a
// scale per token and head, like k8v8 of package kv. So logits equal those of the
// CPU except for quantization error and the order of sums.
package gpupass

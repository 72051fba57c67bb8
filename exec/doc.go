// Package exec runs the forward pass of a model on the CPU: token ids in, logits out.
//
// Read reference_test.go first. It is the same computation in plain float32 Go, one token at
// a time. Then read forward.go from top to bottom: its functions follow one pass in order.
// The other files make its functions fast, keep them within the memory budget, or move part of
// their work to another device.
//
// # One pass, in order
//
// A caller appends tokens to a sequence with [Model.Extend] (sequence.go). Extend cuts them
// into prefill chunks; each chunk is a [Batch] (batch.go) and one pass:
//
//	preparePass     reserves KV slots; begins the reads of KV pages on flash
//	embed           copies the embedding rows of the tokens into the residual stream x
//	for each layer
//	  norm          queued; runs when the next matmul quantizes its input
//	  runQKV        queries, keys and values: three matmuls in one step
//	  prepareRow    QK norm, RoPE, and the append of keys and values to the KV cache
//	  selectBlocks  with a page selection: chooses the blocks that each row attends to
//	  attendFlash   attention over pages on flash, group by group as they arrive
//	  attendMemory  attention over pages in memory, continuing from the same states
//	  O             output projection
//	  runMLP        gate and up, activation, down; or
//	  runExperts    router, the MLPs of the chosen experts, their weighted sum
//	output          final norm and output head, only for rows whose logits are wanted
//	commit          the tokens become part of their sequences
//
// A layer with a short convolution (mixers.go) has runShortConv instead of attention. In the
// last layer, rows without wanted logits stop after their keys and values (prune.go). A pass
// that fails or is cancelled leaves its sequences unchanged.
//
// Model families are data. An [arch.Spec] says which norms, rotary tables, windows,
// activations and experts each layer has; this package never depends on a family's name.
//
// # The types
//
//	Model              weights, KV cache, threads and the pass           model.go
//	Sequence           the tokens of one stream and their KV             sequence.go
//	pass               the forward pass: buffers and the parts below     pass.go
//	passState          what the parts share: activations, current layer  pass_state.go
//	rowOps             norms and additions that wait for the next step   row_ops.go
//	matmulQueue        the matmuls of a step                             matmul.go
//	attention          tiles, spans and pages                            attention.go
//	pageSelector       query-aware page selection                        attention_select.go
//	experts            routing and the experts' MLPs                     experts.go
//	outlierPass        W8A8: the outlier path beside the integer matmuls matmul_outliers.go
//	offloadPass        rows of matmuls on another device (Split)         matmul_offload.go
//	offloadedLayers    whole layers on another device (Accelerator)      offloaded_layers.go
//
// All buffers of a pass are allocated once, in one frame (pass_buffers.go). A pass allocates
// nothing on Go's heap; TestDecodeAllocatesNothing proves that for every family.
//
// # Steps and the matmul queue
//
// The matmuls of a step read the same input. queue adds a matmul to the list, and run
// executes the list: it quantizes each input once, splits the rows of all matrices over the
// threads (matmul_ranges.go), and returns when all are complete. A method named queue… only
// queues; run… and flush… execute.
//
// # Where a pass waits
//
// The pass waits for flash in these places, and only if the bytes are not in memory yet:
//
//   - embedding rows: EmbeddingLookup.Lookup, from embed;
//   - streamed weights: Stream.Take, from runStreamed (matmul_stream.go). The stream prefetches
//     across layers and passes, and the resident rows of a layer's step run before the first
//     wait;
//   - experts: ExpertCache.WaitReady, from experts.run. Experts in memory run first, and reads of
//     likely experts start before attention (experts_guess.go);
//   - KV pages: Reader.Take, from attendSegments, or PageReader.Next for selected pages
//     (attention_flash.go). Each page is verified while tiles attend to it;
//   - outlier columns that are not resident: one thread reads them while the others compute
//     the integer half (matmul_outliers.go).
//
// With offloaded rows, the pass also waits for the device at the end of a step
// (finishOffload).
//
// # Where the budget counts
//
// [MeasureShape] (model_shape.go) computes from a model's files, before any weight is read,
// the sizes from which package tiering makes a plan. Loading and running then reserve from
// [Options].Budget: weights and rings (packages weights and fetch), the pass's frame (newPass),
// hot outlier columns (outlier_path.go), KV pages (package kv), and recurrent state
// (NewSequence). [Model.Replan] applies another plan to a loaded model.
//
// # The arithmetic contract
//
// For one model file, KV format and CPU the logits of a token are bit-identical for any chunk
// size, batch, thread count, budget and order of work. Three rules give that:
//
//   - a matmul computes every output as one [quant.Dot], whose order of additions is fixed
//     and does not depend on the rest of the batch;
//   - attention walks the stored keys and values in blocks of [kv.BlockTokens] tokens by
//     absolute position; it merges blocks in order inside a span of spanBlocks blocks, and
//     spans in order of their index;
//   - a token attends to keys and values as the cache stores them, its own included, never
//     to a more exact copy in memory.
//
// Rows and layers on another device follow that device's arithmetic instead.
package exec

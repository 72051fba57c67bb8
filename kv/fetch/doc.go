// Package fetch reads keys and values (KV) from flash for the attention of a forward
// pass.
//
// A [Reader] plans which pages each layer of a batch attends to ([Reader.Begin]) and
// reads them in that order through a ring of memory: while one layer computes, the
// stream reads the pages of the next layer; during the last layer it reads those of the
// first layer of the next pass. Attention takes the pages with [Reader.Take]. If the
// weights are streamed too, a single stream reads both, interleaved in the order of
// use (see [Interleaver]); two streams would compete for bandwidth. Begin reading in
// plan.go and reader.go.
//
// [PickedPages] reads the pages that the page selector picked, neighbours together, and
// keeps those that are picked frequently in the ring, which the stream does not need
// then.
//
// Every page is verified before its results are used. Attention computes the checksum
// of a KV head block while the block is in the processor's cache; [PageChecksum]
// combines them into the checksum of the page.
//
// A Reader belongs to the goroutine of the forward pass. Any goroutine may call
// [Reader.Submit].
package fetch

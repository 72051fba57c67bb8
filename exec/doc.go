// Package exec computes one token from start to finish: it reads what a model
// file says about itself, turns that into a description of the network, holds
// the weights, and runs the forward pass.
//
// There is one forward pass (forward.go). What differs between model families
// is data: a [Spec] says which norms, rotary tables, windows, activations and
// expert routers each layer has. A family is one small file (family_*.go) that
// fills a Spec from [Hyper], the neutral form of config.json and of GGUF
// metadata, and names the tensors where they differ from the common names.
//
// # The arithmetic contract
//
// For one model file, KV format and CPU the logits of a token are bit-identical
// whatever the chunk size, batch, thread count or order of work. Three rules
// give that:
//
//   - a matrix product computes every output as one [quant.Dot], whose order of
//     additions is fixed and does not depend on the rest of the batch;
//   - attention walks the stored keys and values in blocks of [kv.BlockTokens]
//     tokens by absolute position; blocks are merged one after the other inside
//     a span of spanBlocks blocks, and spans in order of their index;
//   - a token attends to keys and values as the cache stores them, its own
//     included, never to a more exact copy that happens to be at hand.
package exec

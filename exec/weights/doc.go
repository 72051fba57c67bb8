// Package weights loads the weights of a model, keeps a planned part of them in memory and
// streams the rest from flash.
//
// Matrix, Linear, LayerWeights and Weights are the weights as the forward pass in package
// exec uses them. Loader checks every tensor of a model against its arch.Spec, lays the
// tensors out in memory frames (Layout, Placement) and reads them. Under a memory budget a
// tiering.Plan decides the weight residency: Residency pins the first part of each section
// of a pack, streams the rest through a ring, and follows a new plan while the model is in
// use. ExpertCache holds the routed experts that fit into memory and reads the others when
// a router selects them. EmbeddingLookup reads and caches embedding rows. RowSplit and
// OffloadedRows describe the rows of a matmul that another device computes. Import writes a
// pack, in the order in which the loader reads it.
//
// This package does no arithmetic of the forward pass. Begin with weights.go (the types),
// then load.go (LoadWeights) and residency.go.
package weights

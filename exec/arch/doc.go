// Package arch describes model families: their hyper-parameters as a file states them
// (Hyper), the network that follows from them (Spec), the names of their tensors
// (Family.HFName), and their rotary position tables (RopeTable). It reads no weights.
//
// HyperFromGGUF and HyperFromHF read the metadata of a file into a Hyper and find its
// Family. Family.Spec validates the Hyper and turns it into the Spec, which is all that the
// forward pass knows about a family.
//
// Each family is a variable in family_NAME.go. Generations of a family share a file, and so do
// those that are llama with a few settings. docs/guide/adding-a-family.md explains how to add one.
// Begin with spec.go and family_llama.go.
package arch

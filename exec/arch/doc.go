// Package arch describes what a model family is: its hyper-parameters as a file states
// them (Hyper), the network that follows from them (Spec), how the family names its
// tensors, and its rotary position tables. It reads no weights.
//
// A family is one small file, family_NAME.go. docs/guide/adding-a-family.md says how to
// add one.
package arch

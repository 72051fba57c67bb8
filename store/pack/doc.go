// Package pack reads and writes packs, the model files of this project. An import writes a
// pack once; later it is only read.
//
// A pack holds the weights in sections: one per layer, and one or two for the tensors
// outside the layers. A section is byte for byte what the memory of a layer holds when the
// layer is ready to run: matrices in the tiles of package tiled, or in rows if their type
// has no tiles, and vectors as float32. One long read therefore loads a layer. Attachments
// carry the other files of the model, such as its tokenizer, so that a pack is complete by
// itself.
//
// Every block has a checksum, and every read verifies it: a damaged file produces an error
// that names the place, never a wrong weight. FORMAT.md specifies the file.
//
// [Write] writes a pack from [Contents]. [Open] returns a [File]. The engine reads sections
// with [File.Section] and finds the tensors in them with [File.Find]. A File is also a
// [store.Source], which returns the bytes of each tensor as the original model file had
// them: a pack loses no information.
//
// [Cache] is a directory of packs with a limit on its size.
package pack

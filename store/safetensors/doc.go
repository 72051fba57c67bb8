// Package safetensors reads and writes models in the form of Hugging Face repositories: one
// .safetensors file, or several with an index.
//
// A file consists of the length of its header (u64, little-endian), the header, and the
// data of the tensors without gaps. The header is JSON:
//
//	{"__metadata__": {"format": "pt"},
//	 "model.norm.weight": {"dtype": "BF16", "shape": [64], "data_offsets": [0, 128]}, …}
//
// The format is stricter than JSON, and so is this reader. It uses its own scanner: a
// general decoder accepts duplicate keys and keys with other capitals, so two programs
// could see two different models in one file. Files that an index names must be in the
// directory of the model; "..", links and absolute paths cannot escape it.
//
// [Open] returns a [Dir]. Begin with readHeader in header.go for a file and openIndexed in
// index.go for an index. [Write] writes a single file.
package safetensors

// Package safetensors reads and writes models as Hugging Face repositories
// hold them: one .safetensors file, or several with an index.
//
// A file is the length of its header (u64, little-endian), the header, and the
// tensors' bytes without gaps. The header is JSON:
//
//	{"__metadata__": {"format": "pt"},
//	 "model.norm.weight": {"dtype": "BF16", "shape": [64], "data_offsets": [0, 128]}, …}
//
// The format is stricter than JSON, and so is this reader: it goes token by
// token with a scanner of its own, because a general decoder would accept keys
// that occur twice or in other capitals, and two programs could then see two
// different models in one file. Files that an index names are looked for in
// the model's directory only, whatever "..", links or absolute paths say.
package safetensors

// Package token encodes text as token ids and decodes token ids to text.
//
// [FromGGUF] builds a [Tokenizer] from the metadata of a GGUF file. [FromJSON] builds
// one from a Hugging Face tokenizer.json and the configuration files beside it. Both
// sources describe the same pipeline, which [Tokenizer.Encode] runs:
//
//	text ── added tokens ── normalizer ── pre-tokenizer ── model ── ids
//	        <|im_end|>      NFC, "▁"      words            merges, Viterbi
package token

// Package token encodes text as token ids and decodes token ids to text.
//
// [FromGGUF] builds a [Tokenizer] from the metadata of a GGUF file. [FromJSON] builds
// one from a Hugging Face tokenizer.json and the configuration files beside it. Both
// sources describe the same pipeline, which [Tokenizer.Encode] runs:
//
//	text ── added tokens ── normalizer ── pre-tokenizer ── model ── ids
//	        <|im_end|>      NFC, "▁"      words            merges, Viterbi
//
// # Added tokens
//
// The tokenizer matches added tokens first. By default it does not match special
// tokens, so a user's text that spells "<|im_end|>" remains text and cannot end its own
// turn. [EncodeOptions.AllowSpecial] enables the match for rendered chat templates.
//
// # Pre-tokenizer and models
//
// The pre-tokenizer splits text into words. It compiles the regular expression of the
// vocabulary to scanners that do not backtrack (see pattern), so its time is linear in
// the text for every input. An expression that would need backtracking results in an
// error when the tokenizer is built.
//
// Two models encode a word: byte-pair encoding (bpeModel) and Unigram (unigramModel).
// The scored pieces of SentencePiece become a merge table of byte-pair encoding (see
// scoredPairs).
//
// # Decoding
//
// If the vocabulary has byte tokens, the model encodes a character that no piece covers
// as its bytes. [Tokenizer.AppendBytes] then returns any input unchanged, except for
// the changes of the normalizer. [Tokenizer.Decode] returns valid UTF-8. A [Decoder]
// decodes a stream of tokens without splitting a character.
//
// # Errors
//
// FromGGUF and FromJSON return a *store.FormatError that names the field if a tokenizer
// file is malformed, inconsistent or uses a construct that this package does not
// implement.
//
// # Reading the code
//
// Begin with [Tokenizer.AppendEncode] in token.go. gguf*.go and hf*.go read the two
// file formats. bpe.go, merge*.go and unigram.go implement the models. pattern*.go
// compile the regular expressions.
package token

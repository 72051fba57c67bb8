package synth

import (
	"cmp"
	"strconv"
)

// Token types of GGUF.
const (
	tokenNormal  int32 = 1
	tokenControl int32 = 3
)

// merges is not empty, because some engines reject a byte-pair encoding without merges.
var merges = []string{"Ġ t", "h e", "Ġt he"}

// mergedTokens are the tokens that the merges create.
var mergedTokens = []string{"Ġt", "he", "Ġthe"}

// The begin and end tokens, last in the vocabulary.
const (
	beginToken = "<|startoftext|>"
	endToken   = "<|endoftext|>"
)

// minVocab is the size of a vocabulary without fillers.
var minVocab = 256 + len(mergedTokens) + 2

// vocabulary adds the keys of a byte-level tokenizer. No text encodes to fillers, because
// the pre-tokenizers never join letters and digits.
func (s Shape) vocabulary(k *keys) {
	tokens := make([]string, 0, s.Vocab)
	for b := range 256 {
		tokens = append(tokens, string(byteRune(byte(b))))
	}
	tokens = append(tokens, mergedTokens...)
	for len(tokens) < s.Vocab-2 {
		tokens = append(tokens, "Ġw"+strconv.Itoa(len(tokens)))
	}
	tokens = append(tokens, beginToken, endToken)
	types := make([]int32, len(tokens))
	for i := range types {
		types[i] = tokenNormal
	}
	begin, end := len(tokens)-2, len(tokens)-1
	types[begin], types[end] = tokenControl, tokenControl

	k.put("tokenizer.ggml.model", "gpt2")
	k.put("tokenizer.ggml.pre", cmp.Or(s.Pre, families[s.Arch].pre))
	k.put("tokenizer.ggml.tokens", tokens)
	k.put("tokenizer.ggml.token_type", types)
	k.put("tokenizer.ggml.merges", merges)
	k.put("tokenizer.ggml.bos_token_id", uint32(begin))
	k.put("tokenizer.ggml.eos_token_id", uint32(end))
	k.put("tokenizer.ggml.add_bos_token", false)
}

// byteRune returns the character for a byte in byte-level vocabularies: the character with
// this code if it is printable, otherwise one from 256.
func byteRune(b byte) rune {
	printable := func(b byte) bool { return b > ' ' && b < 0x7f || b > 0xa0 && b != 0xad }
	if printable(b) {
		return rune(b)
	}
	letter := rune(256)
	for other := range b {
		if !printable(other) {
			letter++
		}
	}
	return letter
}

package synth

import "strconv"

// Types of tokens, as the files number them.
const (
	tokenNormal  int32 = 1
	tokenControl int32 = 3
)

// merges are the few that there are: a byte-pair encoding without any is a
// borderline case that not every engine loads.
var merges = []string{"Ġ t", "h e", "Ġt he"}

// mergedTokens are the tokens that they make.
var mergedTokens = []string{"Ġt", "he", "Ġthe"}

// The tokens that begin and end a text, last in the vocabulary.
const (
	beginToken = "<|startoftext|>"
	endToken   = "<|endoftext|>"
)

// minVocab leaves no room for fillers.
var minVocab = 256 + len(mergedTokens) + 2

// vocabulary puts a tokenizer for texts in bytes. Texts never encode to
// fillers: no pre-tokenizer in use here keeps letters and digits together.
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
	k.put("tokenizer.ggml.pre", families[s.Arch].pre)
	k.put("tokenizer.ggml.tokens", tokens)
	k.put("tokenizer.ggml.token_type", types)
	k.put("tokenizer.ggml.merges", merges)
	k.put("tokenizer.ggml.bos_token_id", uint32(begin))
	k.put("tokenizer.ggml.eos_token_id", uint32(end))
	k.put("tokenizer.ggml.add_bos_token", false)
}

// byteRune returns the letter that byte-level vocabularies write for a byte:
// the character of that code if it shows, or one from 256 on.
func byteRune(b byte) rune {
	shows := func(b byte) bool { return b > ' ' && b < 0x7f || b > 0xa0 && b != 0xad }
	if shows(b) {
		return rune(b)
	}
	letter := rune(256)
	for other := range b {
		if !shows(other) {
			letter++
		}
	}
	return letter
}

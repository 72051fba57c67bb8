package token

import "slices"

// eosNames lists the spellings of well-known tokens that end a generation. Most
// tokenizer files name a single end-of-sequence token, while chat models use several.
// findEOS therefore recognizes the others by name.
var eosNames = []string{
	"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>",
	"<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
	"</s>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<end_of_utterance>",
	"<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>",
}

// fillInMiddleNames lists the tokens that a fill-in-the-middle model writes after it
// has filled the gap. Text after such a token is not part of the answer.
var fillInMiddleNames = []string{
	"<|fim_pad|>", "<fim-pad>", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
	"<reponame>", "<|file_sep|>",
}

// findEOS returns the tokens that end a generation, in ascending order: the listed ids
// of the tokenizer file, and the tokens with a well-known name for which known returns
// true.
func findEOS(v *vocabulary, listed []int32, known func(id int32) bool) []int32 {
	ends := slices.Clone(listed)
	has := func(name string) bool {
		id := v.lookup(name)
		return id >= 0 && known(id)
	}
	// Two of these tokens do not end a generation in every format: <|end|> ends only a
	// part of a message if the vocabulary has separate tokens for the end of an answer
	// and of a call, and so does </s> if it has a token for tool responses.
	skip := map[string]bool{
		"<|end|>": has("<|return|>") && has("<|call|>") || has("<|calls|>") && has("<|flush|>"),
		"</s>":    has("<|tool_response>"),
	}
	for _, names := range [][]string{eosNames, fillInMiddleNames} {
		for _, name := range names {
			if has(name) && !skip[name] {
				ends = append(ends, v.lookup(name))
			}
		}
	}
	slices.Sort(ends)
	return slices.Compact(ends)
}

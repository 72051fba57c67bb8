package token

import "slices"

// eosNames are the spellings by which tokens that end a generation are known.
// Descriptions name one end-of-sequence token, chat models have several, and
// files that say so are the minority.
var eosNames = []string{
	"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>",
	"<|flush|>", "<|calls|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>",
	"</s>", "<eos>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<end_of_utterance>",
	"<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>",
}

// fillInMiddleNames are what a fill-in-the-middle model writes when it has filled the
// gap; what follows is no answer.
var fillInMiddleNames = []string{
	"<|fim_pad|>", "<fim-pad>", "<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
	"<reponame>", "<|file_sep|>",
}

// findEOS returns the tokens that end a generation: those that the
// description lists and those that are known by name. known says which tokens
// may be recognised by their name.
func findEOS(v *vocabulary, listed []int32, known func(id int32) bool) []int32 {
	ends := slices.Clone(listed)
	has := func(name string) bool {
		id := v.lookup(name)
		return id >= 0 && known(id)
	}
	// Where messages have parts that end with <|end|>, or tools answer, the
	// weaker token does not end a generation.
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

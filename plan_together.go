package llmrun

import (
	"errors"

	"github.com/llmrun/llmrun/exec/draft"
	"github.com/llmrun/llmrun/tiering"
)

// PlannedTogether predicts the speed of several answers that are generated at the same time and share passes over the weights.
type PlannedTogether struct {
	N int `json:"n"` // answers
	// Decode is in tokens per second of all of them together, at the start of a conversation.
	Decode float64 `json:"tok_per_s"`
}

// togetherSizes are the numbers of answers that are predicted.
var togetherSizes = [...]int{2, 4, 8, 16}

// predictTogether predicts the speeds of several answers to the prompt of the need, with the memory of weights that their keys and values
// leave. hot is the memory for keys and values of the plan for one answer. Numbers for which the budget has no room are left out. Answers
// of models with experts are not predicted, because each may need other experts.
func predictTogether(s *tiering.Shape, n tiering.Need, hot int64, rates tiering.Rates, vocab int) ([]PlannedTogether, error) {
	predicted := []PlannedTogether{}
	if s.Experts > 0 {
		return predicted, nil
	}
	for _, answers := range togetherSizes {
		need := n
		need.Heap += togetherBytes(s, vocab, hot, answers, n.Talk)
		plan, err := makePlan(*s, need, rates)
		if errors.Is(err, ErrBudget) {
			return predicted, nil
		}
		if err != nil || plan.Predicted == nil {
			return predicted, err
		}
		pass := plan.Predicted.Pass(draft.GrowthOf(plan).Of(answers))
		predicted = append(predicted, PlannedTogether{answers, float64(answers) / pass})
	}
	return predicted, nil
}

// togetherBytes returns about what so many answers take that one alone does not. If the plan knows how long they are, they first take the
// keys and values for which a conversation of that length has no use, and share their frames; answers of an unknown length may fill the context.
func togetherBytes(s *tiering.Shape, vocab int, hot int64, answers int, talk tiering.Talk) int64 {
	more := int64(answers - 1)
	if talk.Prompt == 0 || talk.Answer == 0 {
		return more * branchBytes(s, vocab, roomTokens)
	}
	need := answersNeed{each: candidateHeap(vocab, talk.Answer) + s.KVState, pages: branchPages(s, talk.Answer)}
	need.unused = max(0, hot-int64(talk.Prompt)*s.KVBytesPerToken-need.pages)
	return need.of(more)
}

// branchBytes returns about what an answer of some tokens takes that is generated beside others: heap, keys and values, and recurrent
// state. The tokens of the prompt count to the heap.
func branchBytes(s *tiering.Shape, vocab, tokens int) int64 {
	return candidateHeap(vocab, tokens) + branchPages(s, tokens) + s.KVFixed
}

// branchPages returns the keys and values of an answer, from the last page of the prompt on.
func branchPages(s *tiering.Shape, tokens int) int64 {
	page := max(1, s.KVPageTokens)
	pages := 1 + (tokens+page-1)/page
	return int64(pages*page) * s.KVBytesPerToken
}

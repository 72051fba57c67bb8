package llmrun

import (
	"errors"

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

// predictTogether predicts the speeds of several answers of tokens each, with the memory of weights that their keys and values leave.
// Numbers for which the budget has no room are left out. Answers of models with experts are not predicted, because each may
// need other experts.
func predictTogether(s *tiering.Shape, n tiering.Need, rates tiering.Rates, vocab int) ([]PlannedTogether, error) {
	predicted := []PlannedTogether{}
	if s.Experts > 0 {
		return predicted, nil
	}
	each := branchBytes(s, vocab, roomTokens)
	for _, answers := range togetherSizes {
		need := n
		need.Heap += int64(answers-1) * each
		plan, err := makePlan(*s, need, rates)
		if errors.Is(err, ErrBudget) {
			return predicted, nil
		}
		if err != nil || plan.Predicted == nil {
			return predicted, err
		}
		pass := plan.Predicted.Pass(passGrowth(plan).Of(answers))
		predicted = append(predicted, PlannedTogether{answers, float64(answers) / pass})
	}
	return predicted, nil
}

// branchBytes returns about what an answer of some tokens takes that is generated beside others: heap, keys and values from the last
// page of the prompt on, and recurrent state. The tokens of the prompt count to the heap.
func branchBytes(s *tiering.Shape, vocab, tokens int) int64 {
	page := max(1, s.KVPageTokens)
	pages := 1 + (tokens+page-1)/page
	return candidateHeap(vocab, tokens) + int64(pages*page)*s.KVBytesPerToken + s.KVFixed
}

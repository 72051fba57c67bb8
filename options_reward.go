package llmrun

import "fmt"

// RewardOptions name a reward model, a model whose head scores answers; see [Engine.Reward]. Its weights stay in
// memory, within the budget of the engine.
type RewardOptions struct {
	// Model is the path of the reward model: one for sequence classification (score.weight), one of TRL with a value
	// head (v_head), or a GGUF file with rank pooling (cls.output); with Marker, also any model with the output matrix
	// of a language model. "" means none.
	Model string
	// Marker is a token that is inserted behind each step of an answer, for a process reward model: the score of a
	// step is that at its marker, and the score of an answer the least of its steps. Of a model without a head
	// it is the probability of the token Good, against Bad. "" scores the whole answer at its last token.
	Marker string
	// Good and Bad are tokens; "" means + and -.
	Good, Bad string
	// Step separates the steps of an answer; "" means two line breaks.
	Step string
}

// defaultStep separates steps of answers.
const defaultStep = "\n\n"

func (o *RewardOptions) validate() error {
	switch {
	case o.Model == "" && (o.Marker != "" || o.Good != "" || o.Bad != "" || o.Step != ""):
		return fmt.Errorf("%w: Reward.Model is empty; Marker, Good, Bad and Step describe a reward model", ErrOptions)
	case o.Marker == "" && (o.Good != "" || o.Bad != ""):
		return fmt.Errorf("%w: Reward.Marker is empty; Good and Bad are tokens behind a marker", ErrOptions)
	}
	return nil
}

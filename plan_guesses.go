package llmrun

import (
	"cmp"
	"context"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/draft"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/tiering"
)

// PlannedGuesses predicts the speed of an answer with the guesses of a drafter; see [DraftOptions].
type PlannedGuesses struct {
	Drafter string `json:"drafter"` // lookup, nested or model
	// Decode is in tokens per second at the start of a conversation, as PredictedDecode is without guesses.
	Decode        float64 `json:"decode_tok_per_s"`
	TokensPerPass float64 `json:"tokens_per_pass"`
	Guesses       int     `json:"guesses"` // in a pass that has any; 0 where guesses do not pay
	// Seen counts the passes of earlier runs from which it is known how often guesses are right; 0 if that is assumed.
	Seen int `json:"seen_passes"`
}

// predictGuesses predicts the speeds with the drafters that the options permit.
func (o *Options) predictGuesses(ctx context.Context, f *modelfile.Files, s *tiering.Shape, plan *tiering.Plan, m *rateMeasurer) ([]PlannedGuesses, error) {
	drafters, err := o.plannedDrafters(f, s, plan)
	if err != nil || plan.Predicted == nil {
		return []PlannedGuesses{}, err
	}
	model := guessedModel(ctx, f, s)
	growth, predicted := draft.GrowthOf(plan), []PlannedGuesses{}
	pass := func(tokens int) float64 { return plan.Predicted.Pass(growth.Of(tokens)) }
	for _, d := range drafters {
		history, seen := m.guessHistory(model, d.name)
		if !seen {
			history = draft.Assumed(d.name)
		}
		e := history.Expect(pass, float64(d.bytes)/(plan.Rates.MemGBs*1e9), o.Drafts.max(), o.Drafts.named())
		g := PlannedGuesses{Drafter: d.name, Decode: 1 / e.Seconds, TokensPerPass: e.TokensPerPass, Guesses: e.Guesses}
		if seen {
			g.Seen = history.Asked
		}
		predicted = append(predicted, g)
	}
	return predicted, nil
}

// plannedDrafter is a drafter, and the bytes of weights that it reads from memory for a guess.
type plannedDrafter struct {
	name  string
	bytes int64
}

// plannedDrafters returns the drafters that sessions with the options have. Those of models with experts are not
// predicted, because each guess may need other experts.
func (o *Options) plannedDrafters(f *modelfile.Files, s *tiering.Shape, plan *tiering.Plan) ([]plannedDrafter, error) {
	spec, err := f.Spec()
	if err != nil || spec.Experts > 0 || !o.mayDraft(false) {
		return nil, err
	}
	switch {
	case o.Drafts.draftPath() != "":
		drafter, err := o.openDraft()
		if err != nil {
			return nil, err
		}
		shape, _, err := exec.MeasureShape(drafter, exec.ShapeOptions{Threads: o.threads(), KV: o.kvFormat(drafter), Exact: o.Exact})
		return []plannedDrafter{{draft.ModelName, shape.TokenBytes()}}, err
	case o.nested && o.Drafts.Drafter != DraftLookup && exec.WhyNoDrafts(spec, o.selection()) == "":
		bytes := cmp.Or(s.Head.Fixed, s.Head.Bytes)
		for i := range s.Layers {
			bytes += s.Layers[i].Fixed
		}
		return []plannedDrafter{{draft.NestedName, bytes}}, nil
	case plan.By[tiering.Drafts] == 0:
		return nil, nil // there is no memory for guesses
	}
	return []plannedDrafter{{name: draft.LookupName}}, nil
}

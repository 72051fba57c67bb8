package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/llmrun/llmrun"
)

// mostReported bounds the steps of a beam search that are reported, in bytes: they are in no reservation of the engine.
const mostReported = 256 << 10

// searchReport lists the steps of a beam search for the JSON object.
type searchReport struct {
	steps   int
	rounds  []stepReport
	leftOut int // steps behind rounds, for which there is no room
	bytes   int
	last    []*llmrun.Candidate // the continuations of the last step; nil for those that were not kept
}

// stepReport is a step of a beam search in the JSON object.
type stepReport struct {
	Continuations []continuation `json:"continuations"`
}

// continuation is the next step of the beginning of an answer.
type continuation struct {
	// Of is the index of the beginning in the continuations of the step before; -1 in the first step.
	Of    int     `json:"of"`
	Text  string  `json:"text"` // of this step
	Score float64 `json:"score"`
	Kept  bool    `json:"kept"`
}

// add adds a step with its continuations, of which some are kept.
func (r *searchReport) add(all, kept []*llmrun.Candidate) {
	const perContinuation = 64
	bytes, step := 0, stepReport{Continuations: make([]continuation, 0, len(all))}
	for _, k := range all {
		of, begins := r.beginning(k)
		text := strings.Clone(k.Text[begins:]) // not a part of the whole text, which would stay
		step.Continuations = append(step.Continuations, continuation{of, text, finite(k.Score), slices.Contains(kept, k)})
		bytes += len(text) + perContinuation
	}
	if r.last = nil; r.leftOut > 0 || r.bytes+bytes > mostReported {
		r.leftOut++
		return
	}
	r.bytes, r.rounds = r.bytes+bytes, append(r.rounds, step)
	for _, k := range all {
		if !slices.Contains(kept, k) {
			k = nil
		}
		r.last = append(r.last, k)
	}
}

// beginning returns which continuation of the last step a candidate continues, and where its own step begins.
func (r *searchReport) beginning(k *llmrun.Candidate) (of, begins int) {
	of = -1
	for i, p := range r.last {
		if p != nil && len(p.IDs) < len(k.IDs) && slices.Equal(p.IDs, k.IDs[:len(p.IDs)]) {
			of, begins = i, len(p.Text)
		}
	}
	return of, begins
}

// beams returns the options of a beam search, which counts its steps in of and, if they are reported, lists their
// continuations. Others are forgotten with their rewards, as the search forgets them.
func (c *sampleFlags) beams(of *choice, o *llmrun.CandidateOptions, reported bool) llmrun.BeamOptions {
	b := llmrun.BeamOptions{GenerateOptions: o.GenerateOptions, Width: c.beam, Expand: c.continuations(), Step: c.step, Score: o.Score}
	b.OnStep = func(all, kept []*llmrun.Candidate) {
		of.search.steps++
		maps.DeleteFunc(of.rewards, func(k *llmrun.Candidate, _ llmrun.Reward) bool { return !slices.Contains(kept, k) })
		if reported {
			of.search.add(all, kept)
		}
	}
	return b
}

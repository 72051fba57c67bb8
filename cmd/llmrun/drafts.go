package main

import (
	"fmt"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/internal/cli"
)

// addDraft declares --draft and --draft-max, for commands that generate.
func (m *modelFlags) addDraft(f *cli.FlagSet) {
	f.Text(&m.drafts.Drafter, "draft", "HOW", "guess several tokens and verify them in one pass over the weights, which does not change the answer: lookup guesses what followed the last tokens where they occurred before in the conversation; nested guesses with the high bits of the weights, for packs that import --nested writes; auto does so where it is expected to be faster; off; or the path of a small model with the same vocabulary, which stays in memory and guesses; default: auto")
	f.Count(&m.drafts.Max, "draft-max", "N", "most guesses in a pass; default: 16", 1, 256)
}

// drafterReport counts the guesses of a drafter.
type drafterReport struct {
	Name     string `json:"name"`
	Proposed int    `json:"proposed"`
	Accepted int    `json:"accepted"`
}

// drafterReports lists the drafters of a generation.
func drafterReports(stats llmrun.Stats) []drafterReport {
	reports := []drafterReport{} // an empty list rather than null
	for _, d := range stats.Drafters {
		reports = append(reports, drafterReport(d))
	}
	return reports
}

// draftText describes the guesses of a generation, if there were any.
func draftText(stats llmrun.Stats) string {
	var d llmrun.DrafterUse // of all drafters
	for _, use := range stats.Drafters {
		d.Proposed, d.Accepted = d.Proposed+use.Proposed, d.Accepted+use.Accepted
	}
	if d.Proposed == 0 {
		return ""
	}
	return fmt.Sprintf("; %.2f tokens per pass, %d of %d guesses right", stats.TokensPerPass(), d.Accepted, d.Proposed)
}

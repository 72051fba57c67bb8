package llmrun

import (
	"fmt"
	"sync"

	"github.com/llmrun/llmrun/exec/weights"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// reuseLeast is the number of uses of experts from which a run learns: some tens of tokens.
	reuseLeast = 1000
	// reuseHorizon is the number of uses that earlier runs count for at most, beside those of a run: texts change.
	reuseHorizon = 50_000
)

// expertReuse learns how often a router chooses experts that are in memory, and how many the tokens of a prompt share. Both
// depend on the model and on the texts, so a plan predicts with the mean of what the last runs saw. The file with the rates
// of the machine stores it.
type expertReuse struct {
	rates   rateMeasurer
	key     string
	layer   int // experts of a layer
	experts int // of the model
	each    int // that a token uses in a layer

	mu  sync.Mutex
	use ExpertUse // of decode
}

// newExpertReuse returns nil if there are no experts, or no directory for the file.
func newExpertReuse(o *Options, path string, s *tiering.Shape) *expertReuse {
	experts := s.ExpertLayers * s.Experts
	if experts == 0 || o.Cache.Dir == "" || o.usesDevice() {
		return nil
	}
	return &expertReuse{rates: o.rateMeasurer(), key: expertReuseKey(path, s), layer: s.Experts, experts: experts, each: s.ExpertsUsed}
}

// expertReuseKey names a model in the file: by the name of its file or directory, and by its shape.
func expertReuseKey(path string, s *tiering.Shape) string {
	_, name := vfs.Split(path)
	return fmt.Sprintf("experts of %s, %d of %d in each of %d layers, %d bytes each, %d bytes a token",
		name, s.ExpertsUsed, s.Experts, s.ExpertLayers, s.ExpertBytes, s.TokenBytes())
}

// expertReuse adds what runs of a model saw to its rates.
func (m *rateMeasurer) expertReuse(path string, s *tiering.Shape, r *Rates) {
	if s.Experts == 0 {
		return
	}
	seen := m.load()[expertReuseKey(path, s)]
	r.ExpertReuse, r.PromptReuse = possibleReuse(seen.ExpertReuse), possibleReuse(seen.PromptReuse)
}

// possibleReuse returns 0 for what no run learns.
func possibleReuse(reuse float64) float64 {
	if reuse < 1 || reuse > tiering.MostReuse {
		return 0
	}
	return reuse
}

// add counts the experts that the tokens of an answer used.
func (r *expertReuse) add(use ExpertUse) {
	if r == nil || use.Slots >= r.experts || use.Slots <= r.each { // slots for one step alone teach nothing
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.use.Slots = use.Slots
	r.use.Used += use.Used
	r.use.Hits += use.Hits
}

// save stores what was learned of answers and of prompts, as far as it is enough. shared are the steps of several tokens of the
// whole engine.
func (r *expertReuse) save(shared weights.SharedSteps) error {
	if r == nil {
		return nil
	}
	known := r.rates.load()
	seen, learned := known[r.key], false
	if r.use.Used >= reuseLeast {
		learned = true
		seen.ExpertReuse, seen.ExpertUses = meanReuse(seen.ExpertReuse, seen.ExpertUses, r.use.reuse(r.each, r.experts), r.use.Used)
	}
	if tokens, used := shared.Mean(); tokens > 0 {
		learned = true
		uses := int64(float64(shared.Steps) * used)
		seen.PromptReuse, seen.PromptUses = meanReuse(seen.PromptReuse, seen.PromptUses, tiering.ReuseOfPrompts(r.layer, r.each, tokens, used), uses)
	}
	if r.use = (ExpertUse{}); !learned {
		return nil
	}
	seen.Measured, seen.Threads = timestamp(), r.rates.threads
	known[r.key] = seen
	return r.rates.save(known)
}

// meanReuse returns the mean of a reuse from some uses of experts and of one from more uses, and how many they are.
func meanReuse(before float64, uses int64, reuse float64, more int64) (mean float64, all int64) {
	uses = min(max(0, uses), reuseHorizon)
	if possibleReuse(before) == 0 {
		uses = 0
	}
	return (float64(uses)*before + float64(more)*reuse) / float64(uses+more), uses + more
}

// reuse returns with which reuse of the router the part of a model's experts that are not in memory becomes the part of uses that
// miss; see tiering.Rates.
func (u ExpertUse) reuse(each, experts int) float64 {
	return tiering.ReuseOfAnswers(tiering.AbsentExperts(u.Slots, each, experts), float64(u.Used-u.Hits)/float64(u.Used))
}

package llmrun

import (
	"fmt"
	"math"
	"sync"

	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

const (
	// reuseLeast is the number of uses of experts from which a run learns: some tens of tokens.
	reuseLeast = 1000
	// reuseMost limits what is learned. Experts that are always in memory would have no limit.
	reuseMost = 16
)

// expertReuse learns how often a router chooses experts that are in memory. That depends on the
// model and on the texts, so a plan predicts with what the last run saw. The file with the rates
// of the machine stores it.
type expertReuse struct {
	rates   rateMeasurer
	key     string
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
	return &expertReuse{rates: o.rateMeasurer(), key: expertReuseKey(path, s), experts: experts, each: s.ExpertsUsed}
}

// expertReuseKey names a model in the file: by the name of its file or directory, and by its shape.
func expertReuseKey(path string, s *tiering.Shape) string {
	_, name := vfs.Split(path)
	return fmt.Sprintf("experts of %s, %d of %d in each of %d layers, %d bytes each, %d bytes a token",
		name, s.ExpertsUsed, s.Experts, s.ExpertLayers, s.ExpertBytes, s.TokenBytes())
}

// expertReuse returns what the last run of a model saw; 0 if there was none, or no experts.
func (m *rateMeasurer) expertReuse(path string, s *tiering.Shape) float64 {
	if s.Experts == 0 {
		return 0
	}
	seen := m.load()[expertReuseKey(path, s)].ExpertReuse
	if seen < 1 || seen > reuseMost {
		return 0
	}
	return seen
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

// save stores what was learned, if it is enough.
func (r *expertReuse) save() error {
	if r == nil || r.use.Used < reuseLeast {
		return nil
	}
	known := r.rates.load()
	known[r.key] = Rates{Measured: timestamp(), Threads: r.rates.threads, ExpertReuse: r.use.reuse(r.each, r.experts)}
	r.use = ExpertUse{}
	return r.rates.save(known)
}

// reuse returns the exponent with which the part of a model's experts that are not in memory
// becomes the part of uses that miss; see tiering.Rates.
func (u ExpertUse) reuse(each, experts int) float64 {
	absent := tiering.AbsentExperts(u.Slots, each, experts)
	missed := float64(max(1, u.Used-u.Hits)) / float64(u.Used)
	return min(reuseMost, max(1, math.Log(missed)/math.Log(absent)))
}

package llmrun

import (
	"github.com/llmrun/llmrun/exec/weights"
)

// ExpertUse counts the hits and misses of the expert cache when the experts of a model do not
// all fit in memory.
type ExpertUse struct {
	Slots int   // experts that fit in memory; 0 if the model has none
	Used  int64 // experts that decode steps and prefill chunks used
	Hits  int64 // uses of experts that were in memory
	Bytes int64 // read from flash
}

// HitRate returns Hits as a fraction of Used, 0 if no experts were used.
func (u ExpertUse) HitRate() float64 {
	return weights.ExpertStats{Used: u.Used, Hits: u.Hits}.HitRate()
}

// since returns the use after before. Slots is the current number.
func (u ExpertUse) since(before ExpertUse) ExpertUse {
	return ExpertUse{u.Slots, u.Used - before.Used, u.Hits - before.Hits, u.Bytes - before.Bytes}
}

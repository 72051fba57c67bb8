package llmrun

import (
	"github.com/llmrun/llmrun/exec/weights"
)

// ExpertUse is how well the memory for experts served, where a mixture of experts
// does not fit as a whole.
type ExpertUse struct {
	Slots int   // experts that memory has room for; 0 where there are none
	Used  int64 // experts that a step worked with, for one token or many
	Hits  int64 // those of them that were in memory already
	Bytes int64 // read
}

// HitRate returns the share of what was used that had been in memory, 0 where
// nothing was used.
func (u ExpertUse) HitRate() float64 {
	return weights.ExpertStats{Used: u.Used, Hits: u.Hits}.HitRate()
}

// since takes off what was before. Slots are those of now.
func (u ExpertUse) since(before ExpertUse) ExpertUse {
	return ExpertUse{u.Slots, u.Used - before.Used, u.Hits - before.Hits, u.Bytes - before.Bytes}
}

package arch

import "math"

// ExpertGroups limits the experts of a token to those of the best groups.
type ExpertGroups struct {
	Count, Used int // Used 0 = no limit
	Best        int // a group's score is that of its best expert, or of its two best
}

// Excluded marks an expert in a group that a token does not use.
const Excluded = -2

// Exclude marks the experts of all but the best groups, if there is a limit. Scores have a bias, which may
// be nil. Of equal groups it excludes the later one.
func (g *ExpertGroups) Exclude(chosen []int32, scores, bias []float32 /* [experts] */) {
	if g.Used == 0 || g.Used == g.Count {
		return
	}
	clear(chosen)
	size := len(scores) / g.Count
	for range g.Count - g.Used {
		worst, least := 0, float32(math.Inf(1))
		for i := range g.Count {
			if v := g.score(i*size, size, scores, bias); chosen[i*size] != Excluded && v <= least {
				worst, least = i, v
			}
		}
		for i := range size {
			chosen[worst*size+i] = Excluded
		}
	}
}

// score returns the score of the experts from first on.
func (g *ExpertGroups) score(first, size int, scores, bias []float32) float32 {
	top, second := float32(math.Inf(-1)), float32(math.Inf(-1))
	for i := first; i < first+size; i++ {
		v := scores[i]
		if bias != nil {
			v += bias[i]
		}
		second = max(second, min(v, top))
		top = max(top, v)
	}
	if g.Best < 2 || size < 2 {
		return top
	}
	return top + second
}

// setBest sets how groups are scored: DeepSeek V3, whose routers have sigmoids, changed it.
func (g *ExpertGroups) setBest(h *Hyper) {
	if h.RouterSigmoid {
		g.Best = 2
	}
}

// validateGroups checks the groups of experts.
func (h *Hyper) validateGroups() error {
	g := &h.Groups
	if g.Used == 0 {
		return nil
	}
	if g.Count < 1 || g.Used < 0 || g.Used > g.Count || h.Experts%g.Count != 0 || h.Experts/g.Count*g.Used < h.ExpertsUsed {
		return h.FieldError(keyName{"expert_group_count", "n_group"}, "%d of %d groups of %d experts", g.Used, g.Count, h.Experts)
	}
	return nil
}

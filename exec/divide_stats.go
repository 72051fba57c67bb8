package exec

import (
	"slices"
	"time"
)

// DividedProduct says how matrices of one kind are divided, and how long steps took
// whose first product they are: one matrix, or several that multiply the same
// vectors, such as queries, keys and values.
type DividedProduct struct {
	Product
	Share     Share
	One, Many DividedSteps // of tokens that are multiplied like one, and of more
}

// DividedSteps counts steps. Predicted and Took are sums over all of them; Waited is
// how much of that was waiting for the device after the own rows were done.
type DividedSteps struct {
	Steps, Tokens           int
	Predicted, Took, Waited time.Duration
}

// role returns what is known of a kind of matrices, and counts one more of them.
func (a *away) role(p Product, share Share) *DividedProduct {
	for _, r := range a.roles {
		known := r.Product
		if known.Count = 0; known == p && r.Share == share {
			r.Count++
			return r
		}
	}
	p.Count = 1
	r := &DividedProduct{Product: p, Share: share}
	a.roles = append(a.roles, r)
	return r
}

// note counts a step that has just ended; own is when the own rows were done.
func (a *awayPass) note(jobs []job, own time.Duration) {
	if len(jobs) == 0 || jobs[0].w.away == nil {
		return
	}
	j := &jobs[0]
	s := &j.w.away.role.One
	if j.w.away.many(j.n) {
		s = &j.w.away.role.Many
	}
	now := a.Device.Clock().Now()
	s.Steps++
	s.Tokens += j.n
	s.Took += now - a.begun
	if len(a.work) > 0 {
		s.Waited += now - own
	}
	for i := range jobs {
		if w := jobs[i].w.away; w != nil {
			s.Predicted += w.predicted(jobs[i].n, a.chunk)
		}
	}
}

// Divided returns how products are divided with Options.Divide, and how long they
// took so far.
func (m *Model) Divided() []DividedProduct {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away == nil {
		return nil
	}
	var list []DividedProduct
	for _, r := range m.away.roles {
		list = append(list, *r)
	}
	slices.SortStableFunc(list, func(a, b DividedProduct) int { // the output matrix is loaded first and used last
		if a.OneToken == b.OneToken {
			return 0
		}
		if a.OneToken {
			return 1
		}
		return -1
	})
	return list
}

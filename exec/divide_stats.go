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
	Share Share
	// Of one token, and of at least Share.Least. What fewer take has nobody predicted:
	// they are left out.
	One, Many DividedSteps
}

// Parts returns which part of the rows the device has, of one token and of many.
func (d *DividedProduct) Parts() (one, many float64) {
	part := func(first int) float64 { return 1 - float64(first)/float64(d.Rows) }
	return part(d.Share.One), part(d.Share.Many)
}

// DividedSteps counts steps. Predicted and Took are sums over all of them; Waited is
// how much of that was waiting for the device after the own rows were done. Nothing is
// predicted of single tokens where the device is static.
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
	predicted := time.Duration(0)
	for i := range jobs {
		w, n := jobs[i].w.away, jobs[i].n
		if w == nil {
			continue
		}
		if n > 1 && (w.role.OneToken || !w.many(n)) {
			return
		}
		predicted += a.predicted(w, n)
	}
	j := &jobs[0]
	s := &j.w.away.role.One
	if j.w.away.many(j.n) {
		s = &j.w.away.role.Many
	}
	now := a.Device.Clock().Now()
	s.Steps++
	s.Tokens += j.n
	s.Predicted += predicted
	s.Took += now - a.begun
	if len(a.work) > 0 {
		s.Waited += now - own
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

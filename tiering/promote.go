package tiering

import (
	"fmt"
	"os"
)

// PromoteStep is how many bytes [Own] has in memory twice.
const PromoteStep = 2 * hugePage

// PromoteNeeds is how much the ledger must have left for [Own].
func PromoteNeeds() int64 { return int64(PromoteStep + os.Getpagesize()) }

// Promote copies what an adopted frame holds to memory of a new frame's own, in huge
// pages, with room as in [AllocRoom]. Each step of it leaves the adopted pages as
// soon as it is copied, so that only a step is in memory twice, and the ledger is
// charged with that. The adopted frame is to be freed afterwards: it holds nothing
// any more.
//
// On an error, and when copying panics, the adopted frame is what it was: pages of
// a file that were left come back when they are touched.
func Promote(old *Frame, p Purpose, room int, copyStep func(dst, src []byte)) (*Frame, error) {
	n := len(old.bytes)
	size, err := pageRound(n)
	if err != nil {
		return nil, fmt.Errorf("tiering: %s: %w", p, err)
	}
	lease, err := old.lease.budget.Reserve(p, int64(min(PromoteStep, size)+os.Getpagesize()))
	if err != nil {
		return nil, err
	}
	f := &Frame{lease: lease}
	done := false
	defer func() {
		if !done {
			f.Free()
		}
	}()
	all, err := pageRound(max(n, room))
	if err == nil && all > 0 {
		f.pages, err = mapPages(all)
	}
	if err == nil && size > 0 {
		err = recommit(f.pages[:size])
	}
	if err != nil {
		return nil, fmt.Errorf("tiering: mapping %d bytes for %s: %w", n, p, err)
	}
	if size >= hugePage {
		adviseHuge(f.pages[:size])
	}
	for at := 0; at < n; {
		// Steps end where a huge page does, which is never filled by halves.
		to := min(n, at+PromoteStep-int(address(f.pages[at:])%hugePage))
		copyStep(f.pages[at:to], old.bytes[at:to])
		discard(old.bytes[at:to])
		at = to
	}
	f.bytes = f.pages[:n:n]
	lease.takeOver(old.lease, int64(size))
	done = true
	return f, nil
}

// takeOver makes the lease one of n bytes, which are not more than it and from
// have together. from is empty then.
func (l *Lease) takeOver(from *Lease, n int64) {
	b := l.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	u := &b.usage
	u.Total += n - l.bytes - from.bytes
	u.By[from.purpose] -= from.bytes
	u.By[l.purpose] += n - l.bytes
	u.Peak[l.purpose] = max(u.Peak[l.purpose], u.By[l.purpose])
	l.bytes, from.bytes = n, 0
}

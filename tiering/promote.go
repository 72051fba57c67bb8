package tiering

import (
	"fmt"
	"os"
)

// PromoteStep is the maximum number of bytes of which [Promote] has two copies in memory.
const PromoteStep = 2 * hugePage

// PromoteNeeds returns the free budget that [Promote] requires.
func PromoteNeeds() int64 { return int64(PromoteStep + os.Getpagesize()) }

// Promote copies the contents of an adopted frame, such as a mapped file, into a new
// frame of anonymous memory with huge pages and with room as in [AllocRoom]. It
// copies in steps and discards the adopted pages after each, so that only one step is
// in memory twice; the ledger is charged for that step. The caller then frees the
// adopted frame, which has no contents any more.
//
// On an error, or if copyStep panics, the adopted frame is unchanged: pages of a file
// that were discarded are loaded again on access.
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
		if f.pages, err = lease.reservePages(all); err == nil {
			adviseSmall(f.pages) // until they are in use
		}
	}
	if err == nil && size > 0 {
		err = lease.recommit(f.pages[:size])
	}
	if err != nil {
		return nil, fmt.Errorf("tiering: mapping %d bytes for %s: %w", n, p, err)
	}
	if size >= hugePage {
		adviseHuge(f.pages[:size])
	}
	for at := 0; at < n; {
		// A step ends at a huge page boundary, so that a huge page is filled in one step.
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

// takeOver moves the bytes of another lease to this one and sets its size to n, which
// is at most their sum. The other lease is empty afterwards.
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

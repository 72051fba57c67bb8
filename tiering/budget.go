package tiering

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
)

// ErrBudget is wrapped by every refusal of the ledger; the error itself is a
// [*BudgetError].
var ErrBudget = errors.New("memory budget exceeded")

// BudgetError says which request did not fit, and why.
type BudgetError struct {
	Purpose Purpose // what the memory was asked for
	Asked   int64   // bytes asked for
	Used    Usage   // what was held at that moment
	Limit   int64   // the budget
}

// Error names the request, the limit and everyone who holds memory.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("%v: %s asks for %d bytes, %d of %d are free (held: %s); raise the budget or use a shorter context",
		ErrBudget, e.Purpose, e.Asked, max(0, e.Limit-e.Used.Total), e.Limit, e.Used)
}

// Unwrap makes errors.Is(err, ErrBudget) true.
func (e *BudgetError) Unwrap() error { return ErrBudget }

// Usage is a copy of the ledger at one moment.
type Usage struct {
	By        [purposes]int64 // bytes held now, indexed by Purpose
	Peak      [purposes]int64 // most bytes ever held at once, by Purpose
	Total     int64           // bytes held now
	TotalPeak int64           // most bytes ever held at once
}

// String lists the purposes that hold memory, such as
// "pinned weights 1048576, scratch 4096".
func (u Usage) String() string {
	var parts []string
	for p := range purposes {
		if u.By[p] != 0 {
			parts = append(parts, fmt.Sprintf("%s %d", p, u.By[p]))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// Budget is the ledger. Its methods may be called from any goroutine.
type Budget struct {
	mu     sync.Mutex
	limit  int64 // bytes; math.MaxInt64 when unlimited
	usage  Usage
	leases int // not yet released; counts those of zero bytes too
}

// New returns a ledger that lends at most limit bytes. With a limit of 0 it
// lends whatever is asked and only keeps the books.
func New(limit int64) *Budget {
	if limit <= 0 {
		limit = math.MaxInt64
	}
	return &Budget{limit: limit}
}

// SetLimit changes the limit; 0 means none. What is held already stays, even if
// it is more: nothing further is lent then until enough has come back.
func (b *Budget) SetLimit(limit int64) {
	if limit <= 0 {
		limit = math.MaxInt64
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = limit
}

// TrySetLimit is SetLimit if no more than the limit is held, and otherwise
// changes nothing and returns false.
func (b *Budget) TrySetLimit(limit int64) bool {
	if limit <= 0 {
		limit = math.MaxInt64
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.usage.Total > limit {
		return false
	}
	b.limit = limit
	return true
}

// Limit returns the most bytes that the ledger lends, 0 when that is unlimited.
func (b *Budget) Limit() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit == math.MaxInt64 {
		return 0
	}
	return b.limit
}

// Reserve enters n bytes under p. On success the caller owns the lease and
// releases it when the memory is gone. A request beyond the limit changes
// nothing and returns a *BudgetError.
func (b *Budget) Reserve(p Purpose, n int64) (*Lease, error) {
	if p >= purposes || n < 0 {
		return nil, fmt.Errorf("tiering: cannot reserve %d bytes for %s", n, p)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	u := &b.usage
	// Subtracting from the limit cannot overflow; adding to the total could.
	if n > b.limit-u.Total {
		return nil, &BudgetError{Purpose: p, Asked: n, Used: *u, Limit: b.limit}
	}
	u.Total += n
	u.By[p] += n
	u.TotalPeak = max(u.TotalPeak, u.Total)
	u.Peak[p] = max(u.Peak[p], u.By[p])
	b.leases++
	return &Lease{budget: b, purpose: p, bytes: n}, nil
}

// Usage returns what is held now and what was held at the peak.
func (b *Budget) Usage() Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.usage
}

// Check returns an error that names what is still held, or nil when every
// lease has come back. It is meant for the end of a test and for Close.
func (b *Budget) Check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leases == 0 {
		return nil
	}
	return fmt.Errorf("tiering: %d leases were not released (held: %s)", b.leases, b.usage)
}

// Lease is the right to hold some bytes. It belongs to one owner.
type Lease struct {
	budget   *Budget
	purpose  Purpose
	bytes    int64
	released bool // guarded by budget.mu
}

// Bytes returns the size of the lease, also after its release.
func (l *Lease) Bytes() int64 { return l.bytes }

// resize changes the size of the lease. A larger one may be refused, as by
// Reserve, and then nothing has changed.
func (l *Lease) resize(n int64) error {
	b := l.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	more := n - l.bytes
	u := &b.usage
	if more > 0 && more > b.limit-u.Total {
		return &BudgetError{Purpose: l.purpose, Asked: more, Used: *u, Limit: b.limit}
	}
	l.bytes = n
	u.Total += more
	u.By[l.purpose] += more
	u.TotalPeak = max(u.TotalPeak, u.Total)
	u.Peak[l.purpose] = max(u.Peak[l.purpose], u.By[l.purpose])
	return nil
}

// Release gives the bytes back. A second call panics: it would hand somebody
// else's memory back, and the ledger would be wrong from then on.
func (l *Lease) Release() {
	b := l.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.released {
		panic(fmt.Sprintf("tiering: a lease of %d bytes (%s) was released twice", l.bytes, l.purpose))
	}
	l.released = true
	b.usage.Total -= l.bytes
	b.usage.By[l.purpose] -= l.bytes
	b.leases--
}

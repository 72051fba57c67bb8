package tiering

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
)

// ErrBudget reports that a request exceeds the budget. The error that wraps it is a
// [*BudgetError] or a [*MinimumError].
var ErrBudget = errors.New("memory budget exceeded")

// BudgetError describes a request that exceeded the budget.
type BudgetError struct {
	Purpose   Purpose // purpose of the request
	Requested int64   // bytes requested
	Used      Usage   // usage at that moment
	Limit     int64   // the budget
}

// Error names the request, the limit and the usage by purpose.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("%v: %s needs %s, %s of %s are free (in use: %s); raise the budget or use a shorter context",
		ErrBudget, e.Purpose, AtLeastText(e.Requested), SizeText(max(0, e.Limit-e.Used.Total)), SizeText(e.Limit), e.Used)
}

// Unwrap makes errors.Is(err, ErrBudget) true.
func (e *BudgetError) Unwrap() error { return ErrBudget }

// Usage is a snapshot of the ledger.
type Usage struct {
	By        [purposes]int64 // bytes in use, by Purpose
	Peak      [purposes]int64 // maximum of By so far
	Total     int64           // bytes in use
	TotalPeak int64           // maximum of Total so far
}

// String lists the purposes with memory in use, for example "pinned weights 1 MiB, scratch
// 4 KiB".
func (u Usage) String() string {
	var parts []string
	for p := range purposes {
		if u.By[p] != 0 {
			parts = append(parts, fmt.Sprintf("%s %s", p, SizeText(u.By[p])))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// Budget is the ledger. Any goroutine may call its methods.
type Budget struct {
	mu     sync.Mutex
	limit  int64 // bytes; math.MaxInt64 means unlimited
	usage  Usage
	leases int // number of leases in use, including those of zero bytes
}

// New returns a ledger with a limit in bytes. With a limit of 0 it grants every
// request and only counts.
func New(limit int64) *Budget {
	if limit <= 0 {
		limit = math.MaxInt64
	}
	return &Budget{limit: limit}
}

// SetLimit changes the limit; 0 means none. Existing leases remain even if they
// exceed the limit; new requests are then refused until enough memory has been
// released.
func (b *Budget) SetLimit(limit int64) {
	if limit <= 0 {
		limit = math.MaxInt64
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = limit
}

// TrySetLimit calls SetLimit unless more than limit is in use. In that case it
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

// Limit returns the limit, 0 if there is none.
func (b *Budget) Limit() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.limit == math.MaxInt64 {
		return 0
	}
	return b.limit
}

// Reserve reserves n bytes for p. The caller owns the lease and releases it after it has
// freed the memory. A request beyond the limit changes nothing and returns a
// *BudgetError.
func (b *Budget) Reserve(p Purpose, n int64) (*Lease, error) {
	if p >= purposes || n < 0 {
		return nil, fmt.Errorf("tiering: cannot reserve %d bytes for %s", n, p)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	u := &b.usage
	// Subtracting from the limit cannot overflow; adding to the total could.
	if n > b.limit-u.Total || faulty(Request{Budget: b, Purpose: p, Bytes: n}) {
		return nil, &BudgetError{Purpose: p, Requested: n, Used: *u, Limit: b.limit}
	}
	u.Total += n
	u.By[p] += n
	u.TotalPeak = max(u.TotalPeak, u.Total)
	u.Peak[p] = max(u.Peak[p], u.By[p])
	b.leases++
	return &Lease{budget: b, purpose: p, bytes: n}, nil
}

// Usage returns the memory in use and its maximum so far.
func (b *Budget) Usage() Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.usage
}

// ResetPeak makes the memory in use the maximum so far.
func (b *Budget) ResetPeak() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.usage.Peak, b.usage.TotalPeak = b.usage.By, b.usage.Total
}

// Check returns an error that lists the memory in use, or nil if every lease has been
// released. Tests and Close call it.
func (b *Budget) Check() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leases == 0 {
		return nil
	}
	return fmt.Errorf("tiering: %d leases were not released (in use: %s)", b.leases, b.usage)
}

// Lease is the right to use a number of bytes. It has one owner.
type Lease struct {
	budget   *Budget
	purpose  Purpose
	bytes    int64
	released bool // guarded by budget.mu
}

// Bytes returns the size of the lease, even after its release.
func (l *Lease) Bytes() int64 { return l.bytes }

// Resize changes the size of the lease. Growing may be refused, like Reserve, and
// then changes nothing.
func (l *Lease) Resize(n int64) error {
	b := l.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	more := n - l.bytes
	u := &b.usage
	if more > 0 && (more > b.limit-u.Total || faulty(Request{Budget: b, Purpose: l.purpose, Bytes: more})) {
		return &BudgetError{Purpose: l.purpose, Requested: more, Used: *u, Limit: b.limit}
	}
	l.bytes = n
	u.Total += more
	u.By[l.purpose] += more
	u.TotalPeak = max(u.TotalPeak, u.Total)
	u.Peak[l.purpose] = max(u.Peak[l.purpose], u.By[l.purpose])
	return nil
}

// Release returns the bytes to the budget. A second call panics, because it would
// release the memory of another lease.
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

// Ledger is a number of bytes for each Purpose.
type Ledger [purposes]int64

// Total returns the sum.
func (l *Ledger) Total() (n int64) {
	for _, v := range l {
		n += v
	}
	return n
}

// ByName returns the nonzero purposes by name.
func (l *Ledger) ByName() map[string]int64 {
	named := map[string]int64{}
	for p, v := range l {
		if v != 0 {
			named[Purpose(p).String()] = v
		}
	}
	return named
}

// Purposes returns all purposes in the order in which reports list them.
func Purposes() []Purpose {
	all := make([]Purpose, purposes)
	for p := range all {
		all[p] = Purpose(p)
	}
	return all
}

// Purpose classifies memory. The ledger counts by purpose, so that reports and errors
// can list the consumers.
type Purpose uint8

// The purposes, in the order of reports.
const (
	Pinned      Purpose = iota // weights that stay in memory
	Ring                       // buffer of streamed weights
	Cached                     // embedding row cache and expert cache
	Mapped                     // resident pages of mapped files
	KVHot                      // KV in memory
	KVFrames                   // buffers for KV from flash
	KVSummaries                // summaries of keys for page selection
	Drafts                     // what drafters remember
	Rewards                    // a reward model
	Scratch                    // activations and other memory of a batch
	Shared                     // buffers shared between devices
	Heap                       // Go's heap: vocabularies, tables, bookkeeping
	Code                       // the program's code
	Driver                     // a device's driver, besides the buffers above

	purposes // number of purposes
)

var purposeNames = [purposes]string{
	"pinned weights", "weight ring", "weight cache", "mapped files", "kv hot", "kv frames", "kv summaries", "drafts", "reward model", "scratch", "shared buffers", "heap", "code", "device driver",
}

// String returns the name that reports and errors use.
func (p Purpose) String() string {
	if p >= purposes {
		return fmt.Sprintf("purpose(%d)", uint8(p))
	}
	return purposeNames[p]
}

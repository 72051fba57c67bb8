package tiering

import (
	"fmt"
	"sync/atomic"
	"syscall"
)

// Request is a request for memory that is about to run.
type Request struct {
	Budget  *Budget
	Purpose Purpose
	Bytes   int64 // that are reserved or mapped
	Map     bool  // the operating system maps pages; otherwise the ledger reserves bytes
}

// faults is the function that SetFaults has set, nil outside of tests.
var faults atomic.Pointer[func(Request) bool]

// SetFaults makes requests for memory fail in tests. All ledgers call refuse before they
// grant a reservation, and all frames before they map pages. If refuse returns true, the
// ledger returns a *BudgetError, or mapping returns an error that wraps syscall.ENOMEM.
// refuse must be safe for concurrent calls and must not use the ledger. nil restores the
// normal behavior. SetFaults returns the previous function.
func SetFaults(refuse func(Request) bool) (before func(Request) bool) {
	var next *func(Request) bool
	if refuse != nil {
		next = &refuse
	}
	if old := faults.Swap(next); old != nil {
		return *old
	}
	return nil
}

// faulty reports whether a test makes the request fail.
func faulty(r Request) bool {
	refuse := faults.Load()
	return refuse != nil && (*refuse)(r)
}

// mapFault returns the error of a mapping that a test makes fail, nil otherwise.
func (l *Lease) mapFault(size int) error {
	if !faulty(Request{Budget: l.budget, Purpose: l.purpose, Bytes: int64(size), Map: true}) {
		return nil
	}
	return fmt.Errorf("injected: %w", syscall.ENOMEM)
}

// reservePages is the function reservePages, which tests can make fail.
func (l *Lease) reservePages(size int) ([]byte, error) {
	if err := l.mapFault(size); err != nil {
		return nil, err
	}
	return reservePages(size)
}

// recommit is the function recommit, which tests can make fail.
func (l *Lease) recommit(pages []byte) error {
	if err := l.mapFault(len(pages)); err != nil {
		return err
	}
	return recommit(pages)
}

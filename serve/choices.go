package serve

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/llmrun/llmrun"
)

// together generates n choices of a request at the same time, so that they share passes over the weights. The first one begins alone:
// when it calls begun, or ends, the prompt is computed, and the others take its keys and values. Choices for which there is no memory
// beside the others are generated again, one after the other.
func together(n int, choice func(i int, begun func()) error) error {
	if n == 1 {
		return choice(0, func() {})
	}
	errs := make([]error, n)
	first := make(chan error, 2) // an end without an answer, or a beginning
	var running sync.WaitGroup
	var panicked atomic.Value
	run := func(i int, begun func()) {
		defer func() {
			if p := recover(); p != nil {
				panicked.Store(fmt.Sprintf("choice %d: %v\n%s", i, p, debug.Stack()))
			}
		}()
		errs[i] = choice(i, begun)
	}
	running.Go(func() {
		run(0, sync.OnceFunc(func() { first <- nil }))
		first <- errs[0]
	})
	err := <-first
	for i := 1; i < n && err == nil && panicked.Load() == nil; i++ {
		running.Go(func() { run(i, func() {}) })
	}
	running.Wait()
	if p := panicked.Load(); p != nil {
		panic(p) // in the goroutine of the request, as that of a single choice: the others go on
	}
	if err != nil { // the other choices would fail too
		return err
	}
	for i, err := range errs {
		if lacksMemory(err) {
			errs[i] = choice(i, func() {})
		}
	}
	return cmp.Or(errs...)
}

// lacksMemory reports whether an answer failed for want of memory.
func lacksMemory(err error) bool {
	var p *problem
	return errors.Is(err, llmrun.ErrBudget) || errors.As(err, &p) && p.status == http.StatusRequestEntityTooLarge
}

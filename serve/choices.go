package serve

import (
	"cmp"
	"errors"
	"net/http"
	"sync"

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
	running.Go(func() {
		errs[0] = choice(0, sync.OnceFunc(func() { first <- nil }))
		first <- errs[0]
	})
	if err := <-first; err != nil { // the others would fail too
		return err
	}
	for i := 1; i < n; i++ {
		running.Go(func() { errs[i] = choice(i, func() {}) })
	}
	running.Wait()
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

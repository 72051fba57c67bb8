package main

import (
	"context"
	"os"
	"os/signal"
	"sync"

	"github.com/llmrun/llmrun/internal/cli"
)

// A signalWatch passes the signals that end a program to the phase of a chat that is running: an
// answer, or the next message. A signal that arrives between two phases is for the next one. So the
// first signal never has its default effect, which would lose an answer that is shown while it is
// still being saved. A second signal ends the program at once.
type signalWatch struct {
	arrived chan os.Signal
	drained chan struct{}  // closed when all that arrived is delivered
	finish  func()         // called before a signal ends the program
	exit    func(code int) // os.Exit

	mu      sync.Mutex
	phase   func(os.Signal) // nil between phases
	pending os.Signal       // for the next phase
	spent   bool            // signals have their default effect
}

// watchSignals starts a watch. A signal that ends the program while a message is read calls finish
// first.
func watchSignals(finish func()) *signalWatch {
	w := &signalWatch{arrived: make(chan os.Signal, 1), drained: make(chan struct{}), finish: finish, exit: os.Exit}
	signal.Notify(w.arrived, cli.StopSignals()...)
	go func() {
		defer close(w.drained)
		for s := range w.arrived {
			w.deliver(s)
		}
	}()
	return w
}

// deliver passes a signal to the running phase or keeps it for the next one.
func (w *signalWatch) deliver(s os.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	signal.Stop(w.arrived) // a second signal has its default effect
	if w.spent = true; w.phase == nil {
		w.pending = s
		return
	}
	w.phase(s)
}

// begin starts a phase that a signal ends with a call of stop. end ends the phase.
func (w *signalWatch) begin(stop func(os.Signal)) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase = stop; w.pending != nil {
		s := w.pending
		w.pending = nil
		stop(s)
	}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.phase = nil; w.spent {
			w.spent = false
			signal.Notify(w.arrived, cli.StopSignals()...)
		}
	}
}

// interruptible begins a phase whose context a signal cancels. end ends the phase and returns err,
// or the signal as an error.
func (w *signalWatch) interruptible(parent context.Context) (ctx context.Context, end func(err error) error) {
	ctx, cancel := context.WithCancelCause(parent)
	endPhase := w.begin(func(s os.Signal) { cancel(cli.StopBy(s)) })
	return ctx, func(err error) error {
		endPhase()
		err = cli.Interruption(ctx, err)
		cancel(context.Canceled)
		return err
	}
}

// quit ends the program in a phase.
func (w *signalWatch) quit(s os.Signal) {
	w.finish()
	w.exit(cli.StopBy(s).ExitCode())
}

// end ends the watch. It returns a signal that no phase has got, or else err.
func (w *signalWatch) end(err error) error {
	signal.Stop(w.arrived)
	close(w.arrived)
	<-w.drained
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pending != nil {
		return cli.StopBy(w.pending)
	}
	return err
}

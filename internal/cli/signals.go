package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// StoppedBy ends a command that a signal stopped. What was printed until then
// stands.
type StoppedBy syscall.Signal

// ErrInterrupted ends a command that stopped because of Ctrl-C.
var ErrInterrupted error = StoppedBy(syscall.SIGINT)

func (s StoppedBy) Error() string { return "stopped: " + syscall.Signal(s).String() }

// ExitCode returns the exit code that shells expect after the signal.
func (s StoppedBy) ExitCode() int { return exitSignal + int(s) }

// StopSignals are the signals that ask a program to end. A terminal that goes away
// is no reason for one that was started to outlive it.
func StopSignals() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// Interruptible returns a context that Ctrl-C and its like cancel, so that what was
// begun is taken back. After the first of them signals have their usual effect again:
// a second ends a program that does not come to a stop.
func Interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	arrived := make(chan os.Signal, 1)
	signal.Notify(arrived, StopSignals()...)
	go func() {
		select {
		case s := <-arrived:
			signal.Stop(arrived)
			cancel(StopBy(s))
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(arrived)
		cancel(context.Canceled)
	}
}

// StopBy returns the error for a signal that has arrived.
func StopBy(s os.Signal) StoppedBy {
	if number, ok := s.(syscall.Signal); ok {
		return StoppedBy(number)
	}
	return StoppedBy(syscall.SIGINT)
}

// Interruption returns what stopped an operation in place of whatever it said, and err
// itself when nothing was cancelled.
func Interruption(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		return err
	case WasStopped(cause):
		return cause
	}
	return ErrInterrupted
}

// WasStopped reports whether err is that a signal stopped a command.
func WasStopped(err error) bool {
	var stopped StoppedBy
	return errors.As(err, &stopped)
}

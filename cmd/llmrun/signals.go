package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// stoppedBy ends a command that a signal stopped. What was printed until then
// stands.
type stoppedBy syscall.Signal

// errInterrupted ends a command that stopped because of Ctrl-C.
var errInterrupted error = stoppedBy(syscall.SIGINT)

func (s stoppedBy) Error() string { return "stopped: " + syscall.Signal(s).String() }

func (s stoppedBy) exitCode() int { return exitSignal + int(s) }

// stopSignals are the signals that ask a program to end. A terminal that goes away
// is no reason for one that was started to outlive it.
func stopSignals() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// interruptible returns a context that Ctrl-C and its like cancel, so that what was
// begun is taken back. After the first of them signals have their usual effect again:
// a second ends a program that does not come to a stop.
func interruptible(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	arrived := make(chan os.Signal, 1)
	signal.Notify(arrived, stopSignals()...)
	go func() {
		select {
		case s := <-arrived:
			signal.Stop(arrived)
			cancel(stopBy(s))
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(arrived)
		cancel(context.Canceled)
	}
}

// stopBy returns the error for a signal that has arrived.
func stopBy(s os.Signal) stoppedBy {
	if number, ok := s.(syscall.Signal); ok {
		return stoppedBy(number)
	}
	return stoppedBy(syscall.SIGINT)
}

// interruption returns what stopped an operation in place of whatever it said, and err
// itself when nothing was cancelled.
func interruption(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		return err
	case wasStopped(cause):
		return cause
	}
	return errInterrupted
}

// wasStopped reports whether err is that a signal stopped a command.
func wasStopped(err error) bool {
	var stopped stoppedBy
	return errors.As(err, &stopped)
}

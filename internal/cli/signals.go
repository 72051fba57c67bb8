package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// StoppedBy is the error of a command that a signal stopped.
type StoppedBy syscall.Signal

// ErrInterrupted is the error of a command that Ctrl-C stopped.
var ErrInterrupted error = StoppedBy(syscall.SIGINT)

func (s StoppedBy) Error() string { return "stopped: " + syscall.Signal(s).String() }

// ExitCode returns the exit code by which shells recognise the signal.
func (s StoppedBy) ExitCode() int { return exitSignal + int(s) }

// StopSignals returns the signals that end a program. SIGHUP is among them unless the program was
// started to outlive its terminal (nohup).
func StopSignals() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// Interruptible returns a context that the StopSignals cancel, so that operations can clean up.
// After the first signal they have their default effect again: a second signal ends a program
// that hangs.
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

// StopBy returns the error for a received signal.
func StopBy(s os.Signal) StoppedBy {
	if number, ok := s.(syscall.Signal); ok {
		return StoppedBy(number)
	}
	return StoppedBy(syscall.SIGINT)
}

// Interruption returns the cause of a cancelled ctx in place of err, and err itself if ctx was not
// cancelled.
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

// WasStopped reports whether a signal stopped the command.
func WasStopped(err error) bool {
	var stopped StoppedBy
	return errors.As(err, &stopped)
}

//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// onResize calls resized when the size of the terminal changes, until stop is called.
func onResize(resized func()) (stop func()) {
	changed, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		defer close(done)
		for range changed {
			resized()
		}
	}()
	return func() {
		signal.Stop(changed)
		close(changed)
		<-done
	}
}

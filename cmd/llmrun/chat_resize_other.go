//go:build !unix

package main

// onResize does nothing: the system has no signal for the size of a terminal, which is read again for each message.
func onResize(func()) (stop func()) { return func() {} }

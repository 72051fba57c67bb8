//go:build !unix

package main

import "os/exec"

// cancelChildren leaves what a command has started: its pipes are closed a second behind its end.
func cancelChildren(*exec.Cmd) {}

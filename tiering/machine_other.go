//go:build !linux && !darwin && !windows

package tiering

// ReadMachine returns nothing: this system does not tell.
func ReadMachine() Machine { return Machine{} }

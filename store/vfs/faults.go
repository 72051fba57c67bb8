package vfs

import "sync/atomic"

// osFaults is the function that SetFaults has set, nil outside of tests.
var osFaults atomic.Pointer[faults]

// SetFaults injects faults into the operations of the operating system's files in tests, also
// where a program takes no FS: as long as fault is set, OS and OSOwn return NewFaulty of the
// operating system with it. Files that were opened meanwhile keep the faults. nil restores the normal
// behavior. Files with faults cannot be mapped.
func SetFaults(fault func(Op) error) {
	if fault == nil {
		osFaults.Store(nil)
		return
	}
	osFaults.Store(&faults{decide: fault})
}

// withFaults returns fsys with the faults that a test has set.
func withFaults(fsys FS) FS {
	if f := osFaults.Load(); f != nil {
		return &faultyFS{fsys: fsys, faults: f}
	}
	return fsys
}

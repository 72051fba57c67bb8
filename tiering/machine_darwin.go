package tiering

import "golang.org/x/sys/unix"

// ReadMachine describes this machine.
func ReadMachine() Machine {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil || total > 1<<62 {
		return Machine{}
	}
	return Machine{Total: int64(total)}
}

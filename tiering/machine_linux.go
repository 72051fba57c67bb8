package tiering

import "os"

// ReadMachine describes this machine.
func ReadMachine() Machine { return machineFromProc(os.DirFS("/")) }

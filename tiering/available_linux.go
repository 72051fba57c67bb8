package tiering

import "os"

func systemAvailable() int64 { return availableFromProc(os.DirFS("/")) }

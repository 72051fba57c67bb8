package vfs

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mappedFrom returns where the kernel mapped data from: the program, by a name that stays
// valid when the file is removed, or the file that contains it, such as a library.
func mappedFrom(data string) (places []place) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil
	}
	defer f.Close()
	addr := uint64(uintptr(unsafe.Pointer(unsafe.StringData(data))))
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if off, path, ok := mappingAt(lines.Text(), addr); ok {
			return []place{{"/proc/self/exe", off}, {path, off}}
		}
	}
	return nil
}

// mappingAt parses a line of /proc/self/maps, such as
// "00400000-00a3c000 r--p 00000000 fe:01 1835 /usr/bin/llmrun". ok reports whether the
// mapping contains addr; off is then its offset in the file.
func mappingAt(line string, addr uint64) (off int64, path string, ok bool) {
	var from, to, at, inode uint64
	var mode, device string
	if n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %d", &from, &to, &mode, &at, &device, &inode); n != 6 || inode == 0 || addr < from || addr >= to {
		return 0, "", false
	}
	_, path, ok = strings.Cut(line, "/")
	return int64(at + addr - from), "/" + path, ok
}

// releasePages takes the whole pages of a string of the program out of the process. The next
// access reads them from the program's file again.
func releasePages(data string) {
	pages := AlignDirect(unsafe.Slice(unsafe.StringData(data), len(data)))
	if size := os.Getpagesize(); DirectAlign%size != 0 { // larger pages: AlignDirect does not align to them
		return
	}
	if pages = pages[:len(pages)&^(DirectAlign-1)]; len(pages) > 0 {
		_ = unix.Madvise(pages, unix.MADV_DONTNEED)
	}
}

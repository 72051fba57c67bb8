package tiering

import (
	"bytes"
	"errors"
	"io/fs"
	"iter"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Resident is the memory of this process as the kernel counts it.
type Resident struct {
	Now  int64 // bytes, VmRSS
	Peak int64 // the maximum so far, VmHWM
	// PageTables is the memory of the page tables, VmPTE. Control groups count it, and Now
	// does not contain it.
	PageTables int64
}

// ReadResident returns the memory of this process. root is that of ReadSigns. It returns
// zeros on systems other than Linux and Android.
func ReadResident(root fs.FS) (r Resident) {
	for line := range strings.Lines(readText(root, "proc/self/status")) {
		name, value, _ := strings.Cut(line, ":")
		kb, ok := parseAmount(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
		switch {
		case !ok || kb > math.MaxInt64/1024:
		case name == "VmRSS":
			r.Now = kb * 1024
		case name == "VmHWM":
			r.Peak = kb * 1024
		case name == "VmPTE":
			r.PageTables = kb * 1024
		}
	}
	return r
}

// A CodeMemory is the memory of this process's executable and of its shared libraries, as the kernel has described it. To read it
// takes longer than other files of the system, because the kernel counts the pages of every mapping.
type CodeMemory []codeMapping

// ReadCode reads the memory of this process's code, which is empty if the system does not tell. root is that of ReadSigns.
func ReadCode(root fs.FS) (code CodeMemory) { return slices.Collect(codeMappings(root)) }

// Resident returns how many bytes were resident.
func (c CodeMemory) Resident() (bytes int64) {
	for i := range c {
		bytes += c[i].resident
	}
	return bytes
}

// Release gives back the memory of the executable, whose pages come back from its file when they are
// used: those that were only used to start, and those beside them that the kernel maps with each page, do not.
func (c CodeMemory) Release() {
	for i := range c {
		m := &c[i]
		if m.path == executable() && !m.writable && !m.changed { // pages that a debugger has changed would lose that
			releaseMapping(m.from, m.to)
		}
	}
}

// A codeMapping is a part of the executable or of a library in memory.
type codeMapping struct {
	from, to uintptr
	path     string
	writable bool
	resident int64
	changed  bool // some pages differ from the file
}

// codeMappings yields the mappings of this process's executable and of its libraries.
func codeMappings(root fs.FS) iter.Seq[codeMapping] {
	return func(yield func(codeMapping) bool) {
		var m *codeMapping // nil: the lines describe no mapping of code
		for line := range strings.Lines(readText(root, "proc/self/smaps")) {
			fields := strings.Fields(line)
			switch {
			case len(fields) == 0:
			case !strings.HasSuffix(fields[0], ":"): // "00400000-0084b000 r-xp 00000000 fe:00 997 /bin/llmrun"
				if m != nil && !yield(*m) {
					return
				}
				if m = nil; len(fields) >= 6 && isCode(fields[1], fields[5]) {
					m = &codeMapping{path: fields[5], writable: strings.Contains(fields[1], "w")}
					m.from, m.to = parseRange(fields[0])
				}
			case m != nil && (fields[0] == "Rss:" || fields[0] == "Anonymous:"):
				kb, ok := parseAmount(fields[1])
				switch {
				case !ok || kb >= math.MaxInt64/1024:
				case fields[0] == "Rss:":
					m.resident = kb * 1024
				default:
					m.changed = kb > 0
				}
			}
		}
		if m != nil {
			yield(*m)
		}
	}
}

// parseRange parses two addresses in hexadecimal digits with - between them, and returns zeros for anything else.
func parseRange(text string) (from, to uintptr) {
	a, b, _ := strings.Cut(text, "-")
	low, err1 := strconv.ParseUint(a, 16, strconv.IntSize)
	high, err2 := strconv.ParseUint(b, 16, strconv.IntSize)
	if err1 != nil || err2 != nil || low > high {
		return 0, 0
	}
	return uintptr(low), uintptr(high)
}

// isCode reports whether a mapping belongs to the executable or to a library: it may be
// executed, or is a read-only part of such a file.
func isCode(permissions, path string) bool {
	return strings.Contains(permissions, "x") || path == executable() || strings.Contains(path, ".so")
}

// executable returns the path of this program, "" if it is unknown.
var executable = sync.OnceValue(func() string {
	path, _ := os.Executable()
	return path
})

// ResidentMeter reads the memory of this process as the kernel counts it: resident pages, and
// the page tables. A read takes two system calls and allocates nothing. It is not safe for
// concurrent use.
type ResidentMeter struct {
	pages  *os.File // /proc/self/statm
	tables *os.File // /proc/self/status
	text   [4096]byte
}

// NewResidentMeter returns a meter. The caller closes it. It fails on systems other than
// Linux and Android.
func NewResidentMeter() (*ResidentMeter, error) {
	pages, err := os.Open("/proc/self/statm")
	if err != nil {
		return nil, err
	}
	tables, err := os.Open("/proc/self/status")
	if err != nil {
		return nil, errors.Join(err, pages.Close())
	}
	return &ResidentMeter{pages: pages, tables: tables}, nil
}

// Read returns the resident bytes with the page tables, 0 if they cannot be read.
func (m *ResidentMeter) Read() int64 {
	n, _ := m.pages.ReadAt(m.text[:], 0) // fails at the end of the file
	resident := residentPages(m.text[:n]) * int64(os.Getpagesize())
	n, _ = m.tables.ReadAt(m.text[:], 0)
	return resident + tableBytes(m.text[:n])
}

// tableBytes returns the size of the page tables in a status file, 0 without one.
func tableBytes(status []byte) (kb int64) {
	const name = "VmPTE:"
	at := bytes.Index(status, []byte(name))
	if at < 0 {
		return 0
	}
	for _, c := range bytes.TrimLeft(status[at+len(name):], " \t") {
		if c < '0' || c > '9' || kb > 1<<40 {
			break
		}
		kb = kb*10 + int64(c-'0')
	}
	return kb << 10
}

// residentPages returns the second number of a line of numbers, 0 without one.
func residentPages(line []byte) (pages int64) {
	at := bytes.IndexByte(line, ' ') + 1
	for _, c := range line[at:] {
		if at == 0 || c < '0' || c > '9' || pages > 1<<40 {
			break
		}
		pages = pages*10 + int64(c-'0')
	}
	return pages
}

// Close closes the meter.
func (m *ResidentMeter) Close() error { return errors.Join(m.pages.Close(), m.tables.Close()) }

package tiering

import (
	"bytes"
	"errors"
	"os"
)

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

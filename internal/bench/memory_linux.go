package bench

import (
	"bytes"
	"cmp"
	"os"
	"strconv"
)

// A memoryWatch finds the peak memory of the process after begin. Linux resets the peak on
// request; if the process may not request that, the peak is the maximum over calls of sample.
type memoryWatch struct {
	peak    int64 // bytes
	resets  bool
	process string // directory that tells of the process; "" = /proc/self
}

func (w *memoryWatch) begin() {
	const forgetPeak = "5"
	w.process = cmp.Or(w.process, "/proc/self")
	w.resets = os.WriteFile(w.process+"/clear_refs", []byte(forgetPeak), 0) == nil
}

// sample updates the peak with the memory held now, or with the peak since begin.
func (w *memoryWatch) sample() {
	field := "VmRSS:"
	if w.resets {
		field = "VmHWM:"
	}
	w.peak = max(w.peak, kibibytes(w.process+"/status", field))
}

// availableMemory returns the bytes that programs can allocate without swapping, or 0 if unknown.
func availableMemory() int64 { return kibibytes("/proc/meminfo", "MemAvailable:") }

// residentMemory returns the bytes that the process holds, or 0 if unknown. Tests replace it.
var residentMemory = func() int64 { return kibibytes("/proc/self/status", "VmRSS:") }

// kibibytes returns the value in bytes of a field of a /proc file that is in KiB, or 0.
func kibibytes(path, field string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		rest, ok := bytes.CutPrefix(line, []byte(field))
		if !ok {
			continue
		}
		words := bytes.Fields(rest)
		if len(words) == 0 {
			return 0
		}
		n, err := strconv.ParseInt(string(words[0]), 10, 64)
		if err != nil {
			return 0
		}
		return n << 10
	}
	return 0
}

package bench

import (
	"bytes"
	"os"
	"strconv"
)

// A memoryWatch finds the most memory that the process holds at once from begin
// on. Linux forgets an earlier peak when asked to; where it may not be asked,
// the memory held at the calls of note counts.
type memoryWatch struct {
	peak   int64 // bytes
	resets bool
}

func (w *memoryWatch) begin() {
	const forgetPeak = "5"
	w.resets = os.WriteFile("/proc/self/clear_refs", []byte(forgetPeak), 0) == nil
}

// sample takes the memory held now, or since begin, into account.
func (w *memoryWatch) sample() {
	field := "VmRSS:"
	if w.resets {
		field = "VmHWM:"
	}
	w.peak = max(w.peak, kibibytes("/proc/self/status", field))
}

// availableMemory returns the bytes that programs may still take without
// swapping, or 0 where that is not known.
func availableMemory() int64 { return kibibytes("/proc/meminfo", "MemAvailable:") }

// kibibytes returns the bytes that a line of a file in /proc gives in KiB, or 0.
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

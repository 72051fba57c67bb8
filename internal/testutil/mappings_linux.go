package testutil

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Mapping is a range of addresses of this process, to which a file is mapped.
type Mapping struct{ From, To uintptr }

// Mappings returns where this process has mapped a file, whose pages a test can then take out of memory.
func Mappings(tb testing.TB, path string) (all []Mapping) {
	tb.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(line, path+"\n") {
			continue
		}
		var m Mapping
		if _, err := fmt.Sscanf(line, "%x-%x", &m.From, &m.To); err != nil {
			tb.Fatalf("%q: %v", line, err)
		}
		all = append(all, m)
	}
	return all
}

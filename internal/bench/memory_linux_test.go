package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPeakIsTheSystemsIfItResets reads made-up files of a process, with and without the permission to reset the peak.
func TestPeakIsTheSystemsIfItResets(t *testing.T) {
	for name, c := range map[string]struct {
		resets     bool
		first, all int64 // peaks after one sample and after three
	}{
		"the system resets the peak":             {true, 900 << 10, 900 << 10},
		"the peak is the maximum of the samples": {false, 300 << 10, 500 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			w := memoryWatch{process: t.TempDir()}
			status := func(text string) {
				require.NoError(t, os.WriteFile(filepath.Join(w.process, "status"), []byte(text), 0o600))
			}
			request := filepath.Join(w.process, "clear_refs")
			if c.resets {
				require.NoError(t, os.WriteFile(request, nil, 0o600))
			} else {
				require.NoError(t, os.Mkdir(request, 0o700))
			}
			status("Name:\tbench\nVmHWM:\t     900 kB\nVmRSS:\t     300 kB\n")
			w.begin()
			require.Zero(t, w.peak)
			w.sample()
			require.Equal(t, c.first, w.peak)
			status("VmHWM:\t     900 kB\nVmRSS:\t     500 kB\n")
			w.sample()
			status("VmHWM:\t     900 kB\nVmRSS:\t     400 kB\n")
			w.sample()
			require.Equal(t, c.all, w.peak)
			if c.resets {
				asked, err := os.ReadFile(request)
				require.NoError(t, err)
				require.Equal(t, "5", string(asked), "the kernel's request to forget the peak")
			}
			require.Zero(t, kibibytes(filepath.Join(w.process, "status"), "VmSwap:"))
			require.Zero(t, kibibytes(filepath.Join(w.process, "none"), "VmRSS:"))
		})
	}
}

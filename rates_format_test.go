package llmrun

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestRatesOfEarlierPrograms loads the rates file of an earlier program and writes it again.
func TestRatesOfEarlierPrograms(t *testing.T) {
	golden, err := os.ReadFile(filepath.Join("testdata", "formats", ratesFile))
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, ratesFile), golden, 0o600))
	m := rateMeasurer{dir: dir}
	known := m.load()
	require.Equal(t, map[string]Rates{"linux/amd64 avx2, 2 processors, 2 threads, 16 MiB of Q8_0, files in models": {
		Measured: time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC), Weights: "Q8_0", Threads: 2, FlashGBs: 1.5, DecodeGBs: 12.25, PrefillGops: 300,
	}}, known)
	require.NoError(t, m.save(known))
	again, err := os.ReadFile(filepath.Join(dir, ratesFile))
	require.NoError(t, err)
	require.Equal(t, string(golden), string(again))
}

// FuzzRates loads any bytes as a rates file: without a panic, and as numbers that can be written.
func FuzzRates(f *testing.F) {
	golden, err := os.ReadFile(filepath.Join("testdata", "formats", ratesFile))
	require.NoError(f, err)
	f.Add(golden)
	f.Add([]byte(`{"x": null}`))
	f.Add([]byte(`null`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, ratesFile), data, 0o600))
		m := rateMeasurer{dir: dir}
		known := m.load()
		require.NotNil(t, known)
		require.NoError(t, m.save(known))
		require.Equal(t, known, m.load())
	})
}

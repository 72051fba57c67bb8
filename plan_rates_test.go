package llmrun

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/store/vfs"
)

// TestRatesAreCached checks that measurements are cached for each weight type and number of
// threads, and repeated on request.
func TestRatesAreCached(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	f, err := modelfile.Open(vfs.OS(), "cmd/llmrun/bundled/model")
	require.NoError(t, err)
	defer f.Close()
	measured := 0
	m := rateMeasurer{fsys: vfs.OS(), dir: dir, threads: 3, weights: 300 << 20}
	m.compute = func(typ quant.Type, threads int, bytes int64) (float64, float64, error) {
		require.Equal(t, quant.BF16, typ)
		want := int64(320 << 20)
		if m.memory > 0 {
			want = m.memory / 2
		}
		require.Equal(t, want, bytes)
		measured++
		return float64(measured), float64(threads), nil
	}
	get := func(want int) Rates {
		t.Helper()
		r, err := m.rates(t.Context(), f, 0)
		require.NoError(t, err)
		require.Equal(t, want, measured)
		require.Positive(t, r.FlashGBs)
		return r
	}
	first := get(1)
	require.EqualValues(t, 3, first.PrefillGops)
	require.Equal(t, first, get(1))
	m.threads = 2
	get(2)
	m.threads = 3
	require.Equal(t, first, get(2), "the other measurements stay")
	m.remeasure = true
	require.NotEqual(t, first, get(3))
	m.remeasure = false

	require.NoError(t, os.WriteFile(filepath.Join(dir, ratesFile), []byte("{"), 0o600))
	get(4)
	m.remeasure, m.memory = true, 100<<20
	get(5)
	m.remeasure = false
	require.EqualValues(t, 4, get(5).DecodeGBs, "measurements in little memory are not cached")
	m.dir = ""
	get(6)
	get(7)

	m.compute = func(quant.Type, int, int64) (float64, float64, error) { return 0, 0, errors.New("no memory") }
	_, err = m.rates(t.Context(), f, 0)
	require.ErrorContains(t, err, "no memory")
}

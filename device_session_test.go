package llmrun_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/cmd/llmrun/bundled"
)

// TestDeviceSessions saves a session with each device and continues it in another engine,
// with the same answer as without the interruption. A split saves keys and values, which the
// CPU alone must re-prefill. A GPU saves only tokens, which the CPU accepts as they are.
func TestDeviceSessions(t *testing.T) {
	for name, c := range map[string]struct {
		device  string
		layers  int
		savesKV bool
	}{
		"split":              {"cpu+cpu/2", 0, true},
		"GPU":                {"gpu", 0, false},
		"last layers on GPU": {"gpu", 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			options := llmrun.Options{FS: bundled.FS, Context: 256, Device: llmrun.DeviceOptions{Name: c.device, GPULayers: c.layers}, Cache: llmrun.CacheOptions{Dir: dir}}
			engine := func(o llmrun.Options) *llmrun.Engine {
				e, err := llmrun.Open(bundled.Name, o)
				if errors.Is(err, llmrun.ErrNotBuilt) || errors.Is(err, llmrun.ErrNoDriver) {
					t.Skip(err)
				}
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, e.Close()) })
				return e
			}
			e := engine(options)
			first, second := document(100), document(20)
			whole := newSession(t, e)
			ids(t, whole, first, 4)
			want := ids(t, whole, second, 4)

			s := openSession(t, e, "notes", llmrun.SessionOptions{})
			ids(t, s, first, 4)
			require.NoError(t, s.Save(""))
			require.Equal(t, c.savesKV, len(kvFiles(t, dir)) > 0)
			length := s.Len()
			require.NoError(t, e.Close())

			s = openSession(t, engine(options), "notes", llmrun.SessionOptions{})
			require.Equal(t, length, s.Len())
			require.Equal(t, want, ids(t, s, second, 4))
			require.Equal(t, c.savesKV, s.Stats().RestoredTokens > 0)
			require.NoError(t, s.Close())

			e = engine(llmrun.Options{FS: bundled.FS, Context: 256, Cache: llmrun.CacheOptions{Dir: dir}})
			if c.savesKV {
				_, err := e.OpenSession("notes", llmrun.SessionOptions{})
				require.ErrorIs(t, err, llmrun.ErrOtherSettings)
			}
			s = openSession(t, e, "notes", llmrun.SessionOptions{RePrefill: c.savesKV})
			require.Equal(t, length, s.Len())
			ids(t, s, second, 4)
		})
	}
}

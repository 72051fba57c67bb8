package weights

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/store"
	"github.com/llmrun/llmrun/store/pack"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// sectionsOf returns the planned layouts of a model with their sections. It frees their memory
// when the test ends.
func sectionsOf(t *testing.T, path string) []Layout {
	f, err := modelfile.Open(vfs.OS(), path)
	require.NoError(t, err)
	spec, err := f.Spec()
	require.NoError(t, err)
	ld := &Loader{Tensors: f.TensorSet(), Spec: spec, Budget: tiering.New(0)}
	layouts, err := ld.PlanAll(&Weights{Layers: make([]LayerWeights, len(spec.Layers))})
	require.NoError(t, err)
	planned := ld.ConvertBytes(layouts)
	require.NoError(t, ld.convertSections(layouts))
	require.LessOrEqual(t, ld.Budget.Usage().TotalPeak, planned)
	t.Cleanup(func() {
		ld.Free()
		require.NoError(t, ld.Budget.Check())
		require.NoError(t, f.Close())
	})
	return layouts
}

// TestConversionsEqualPacks compares converted matrices with those of an imported model, read in
// parts that begin and end anywhere.
func TestConversionsEqualPacks(t *testing.T) {
	models := testutil.Glob(t, "gguf", "*.gguf")
	for _, family := range []string{"llama3", "gpt_neox", "qwen2_moe", "lfm2"} {
		models = append(models, testutil.Shared(t, "fixtures", family))
	}
	for _, path := range models {
		t.Run(filepath.Base(path), func(t *testing.T) {
			source, err := modelfile.Open(vfs.OS(), path)
			require.NoError(t, err)
			defer source.Close()
			to := filepath.Join(t.TempDir(), "m.pack")
			require.NoError(t, Import(t.Context(), source, vfs.OS(), to, ImportOptions{}))
			converted, stored := sectionsOf(t, path), sectionsOf(t, to)
			require.Len(t, stored, len(converted))
			random := rand.New(rand.NewPCG(1, 2))
			for i := range converted {
				c, s := &converted[i], &stored[i]
				require.False(t, c.stored())
				require.True(t, s.stored())
				for j := range c.Places {
					if c.Places[j].Matrix == nil {
						continue
					}
					n := c.Places[j].Bytes()
					require.Equal(t, s.Places[j].Bytes(), n)
					want, got := make([]byte, n), make([]byte, n)
					_, err := s.section.ReadAt(want, int64(s.Places[j].off))
					require.NoError(t, err)
					for at := 0; at < n; {
						part := min(n-at, 1+random.IntN(n))
						_, err := c.section.ReadAt(got[at:at+part], int64(c.Places[j].off+at))
						require.NoError(t, err)
						at += part
					}
					require.Equal(t, want, got, "%s", c.Places[j].name)
				}
			}
		})
	}
}

// TestConversionFindsChangedBlocks reads a block again whose first conversion had another
// checksum.
func TestConversionFindsChangedBlocks(t *testing.T) {
	path := testutil.Shared(t, "gguf", "tiny-llama-q8_0.gguf")
	l := &sectionsOf(t, path)[0]
	c := l.section.(*conversion)
	require.Greater(t, len(c.sums), 1)
	whole := make([]byte, c.size)
	for range 2 {
		_, err := c.ReadAt(whole, 0)
		require.NoError(t, err)
	}
	last := len(c.sums) - 1
	c.sums[last] ^= 1
	_, err := c.ReadAt(whole, 0)
	require.ErrorIs(t, err, store.ErrChanged)
	place := &c.places[c.placeAt(last*pack.BlockBytes)]
	var damage *store.FormatError
	require.ErrorAs(t, err, &damage)
	require.Equal(t, path, damage.Path)
	at := place.Slice.Ranges[0]
	require.Equal(t, fmt.Sprintf("tensor %q", at.Tensor.Name), damage.Field)
	require.GreaterOrEqual(t, damage.Off, at.Tensor.Offset+at.Offset)
	require.Less(t, damage.Off, at.Tensor.Offset+at.Offset+at.Size)
	_, err = c.ReadAt(whole[:len(whole)-1], 0)
	require.NoError(t, err, "a part of a block has no checksum")
	_, err = c.ReadAt(whole, 1)
	require.ErrorContains(t, err, "outside")
}

// TestConversionIsMeasured measures a model that is converted, and one that is not. The speed is positive too if the
// goroutines run for the first time when the time is over.
func TestConversionIsMeasured(t *testing.T) {
	path := testutil.Shared(t, "gguf", "tiny-llama-q8_0.gguf")
	source, err := modelfile.Open(vfs.OS(), path)
	require.NoError(t, err)
	defer source.Close()
	to := filepath.Join(t.TempDir(), "m.pack")
	require.NoError(t, Import(t.Context(), source, vfs.OS(), to, ImportOptions{}))
	stored, err := modelfile.Open(vfs.OS(), to)
	require.NoError(t, err)
	defer stored.Close()
	spec, err := source.Spec()
	require.NoError(t, err)
	gbs, err := MeasureConversion(t.Context(), source.TensorSet(), spec, false, 2, tiering.New(0))
	require.NoError(t, err)
	require.Positive(t, gbs)
	whole := convertTime
	t.Cleanup(func() { convertTime = whole })
	convertTime = 0
	gbs, err = MeasureConversion(t.Context(), source.TensorSet(), spec, false, 2, tiering.New(0))
	require.NoError(t, err)
	require.Positive(t, gbs)
	gbs, err = MeasureConversion(t.Context(), stored.TensorSet(), spec, false, 2, tiering.New(0))
	require.NoError(t, err)
	require.Zero(t, gbs)
}

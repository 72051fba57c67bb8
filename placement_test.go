package llmrun

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlacementIsReported says what of a placement an owner may not expect.
func TestPlacementIsReported(t *testing.T) {
	for _, c := range []struct {
		name          string
		layers, limit int
		chosen        bool
		longest       int
		told          string
	}{
		{"all that can be", 8, 4096, true, 4096, ""},
		{"fewer layers", 5, 4096, true, 4096, "the last 5 of 8 layers"},
		{"as many as were asked for", 5, 4096, false, 4096, ""},
		{"shorter texts", 8, 32768, true, 6000, "texts of 6000 tokens, of at most 32768"},
		{"shorter, with the layers that were asked for", 5, 32768, false, 6000, "texts of 6000 tokens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &Placement{Device: "a GPU", Layers: c.layers, ModelLayers: 8, Context: 6000}
			longest, notice := p.contextLimit(c.limit, c.chosen)
			require.Equal(t, c.longest, longest)
			if c.told == "" {
				require.Empty(t, notice)
			}
			require.Contains(t, notice, c.told)
		})
	}
}

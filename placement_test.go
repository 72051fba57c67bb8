package llmrun

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPlacementIsReported checks the notice about a placement that differs from the options.
func TestPlacementIsReported(t *testing.T) {
	for _, c := range []struct {
		name          string
		layers, limit int
		automatic     bool
		longest       int
		notice        string
	}{
		{"all layers", 8, 4096, true, 4096, ""},
		{"fewer layers", 5, 4096, true, 4096, "the last 5 of 8 layers"},
		{"the requested layers", 5, 4096, false, 4096, ""},
		{"a shorter context", 8, 32768, true, 6000, "a context of 6000 tokens, not 32768"},
		{"a shorter context with the requested layers", 5, 32768, false, 6000, "a context of 6000 tokens"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &Placement{Device: "a GPU", Layers: c.layers, ModelLayers: 8, Context: 6000}
			longest, notice := p.contextLimit(c.limit, c.automatic)
			require.Equal(t, c.longest, longest)
			if c.notice == "" {
				require.Empty(t, notice)
			}
			require.Contains(t, notice, c.notice)
		})
	}
}

package split

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/devices"
	"github.com/llmrun/llmrun/hetero/profiles"
)

// TestWholePassTrial opens a model with a GPU that is predicted to compute whole passes
// faster. If the trial shows otherwise, the matmuls are split if that is faster.
func TestWholePassTrial(t *testing.T) {
	gpu, err := devices.All.First(hetero.GPU)
	if err != nil {
		t.Skip(err)
	}
	alone := profiles.PassTimes{Prompt: 100 * time.Millisecond, Token: 10 * time.Millisecond}
	for name, c := range map[string]struct {
		there profiles.PassTimes
		whole bool
	}{
		"a slower prompt, but faster tokens": {profiles.PassTimes{Prompt: 150 * time.Millisecond, Token: 5 * time.Millisecond}, true},
		"a faster prompt, and slower tokens": {profiles.PassTimes{Prompt: 50 * time.Millisecond, Token: 12 * time.Millisecond}, false},
		"faster, but not by enough":          {profiles.PassTimes{Prompt: 99 * time.Millisecond, Token: 9900 * time.Microsecond}, false},
	} {
		t.Run(name, func(t *testing.T) {
			onCPU := profiles.PassTimes{Prompt: 50 * time.Millisecond, Token: 11 * time.Millisecond}
			list := []profiles.PassTimes{alone, c.there}
			if !c.whole {
				list = append(list, alone, onCPU)
			}
			takes(t, list...)
			o := newOpening(t, gpu)
			for range 2 {
				o.reports = nil
				m, err := loadAs(t, t.Context(), o.weights, o.model, o.Options)
				require.NoError(t, err)
				require.Equal(t, c.whole, m.SplitStats() == nil)
				for _, d := range m.SplitStats() {
					require.Equal(t, d.Rows, d.Split.Single, d.Name)
					require.True(t, d.LastTokenOnly || d.Split.Batch < d.Rows, d.Name)
				}
				m.Close()
				said := strings.Join(o.reports, "\n")
				require.Equal(t, c.whole, strings.Contains(said, gpu+" computes whole passes"), said)
				require.Equal(t, !c.whole, strings.Contains(said, gpu+" is not used for whole passes: a prompt and 128 tokens took"), said)
			}
		})
	}
}

// TestIgnoreUnsupported checks which errors of placing a model on a device lead to a split.
func TestIgnoreUnsupported(t *testing.T) {
	o := Options{Device: group()}
	refused := o.setAccelerator(&small)
	require.ErrorContains(t, refused, group()+" computes matmuls only")
	require.NoError(t, ignoreUnsupported(refused))
	require.NoError(t, ignoreUnsupported(&hetero.MemoryError{}))
	require.ErrorIs(t, ignoreUnsupported(devices.ErrUnknown), devices.ErrUnknown)
}

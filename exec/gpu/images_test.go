package gpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestImagesChangeNothing reads a text with weights in buffers and in images.
func TestImagesChangeNothing(t *testing.T) {
	var network *Network
	processor := Processor{Opened: func(n *Network) { network = n }}
	path := testutil.Shared(t, "gguf", "tiny-llama-q4_k_m.gguf")
	m := load(t, path, onGPU(processor))
	if network.context.Info.ImageUnits == 0 {
		t.Skip("the device has no images over buffers")
	}
	ids := someIDs(24, m.Spec.Vocab)
	want := teacherForced(t, m, ids)
	require.Zero(t, network.context.Stats().Images)
	t.Setenv(opencl.WeightsVariable, opencl.Images.String())
	m = load(t, path, onGPU(processor))
	require.Equal(t, want, teacherForced(t, m, ids))
	require.Greater(t, network.context.Stats().Images, int64(len(m.Spec.Layers)))
}

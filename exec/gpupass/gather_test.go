package gpupass

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/testutil"
)

// copying makes a newly opened network use memory of the device's own.
func (n *Network) copying(t *testing.T) {
	t.Helper()
	n.context.SharesMemory = false
	require.NoError(t, n.releaseFrom(0))
	require.NoError(t, n.allocateSingle())
}

// TestGatheredWeightsChangeNothing runs a text on a device that copies: with weights in
// buffers of their own, because a common one would be too large, and with weights in the
// buffer of the activations.
func TestGatheredWeightsChangeNothing(t *testing.T) {
	const most = 300 << 10 // larger than any matrix, smaller than all together
	var network *Network
	copying := func(n *Network) {
		network = n
		n.copying(t)
		n.context.Graphs = opencl.NoGraphs // graphs round memory up
	}
	path := testutil.Shared(t, "fixtures", "llama32")
	m := load(t, path, onGPU(Accelerator{Opened: func(n *Network) {
		copying(n)
		n.context.Info.MaxAllocation = most
	}}))
	ids := someIDs(45, m.Spec.Vocab)
	want := teacherForced(t, m, ids)
	require.Less(t, network.single.memory.Size(), most)
	m = load(t, path, onGPU(Accelerator{Opened: copying}))
	require.Greater(t, network.single.memory.Size(), most)
	require.Equal(t, want, teacherForced(t, m, ids))
	held := network.context.Stats().Held
	require.Less(t, held-int64(network.single.memory.Size()), int64(most), "the weights are stored once")
}

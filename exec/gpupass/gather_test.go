package gpupass

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/testutil"
)

// copying has a network that was just opened use memory of the device's own.
func (n *Network) copying(t *testing.T) {
	t.Helper()
	n.context.SharesMemory = false
	require.NoError(t, n.releaseFrom(0))
	require.NoError(t, n.allocateOne())
}

// TestGatheredWeightsChangeNothing reads a text where memory is copied: with weights in
// buffers of their own, because one for all would be too large, and with all in the
// buffer of what they meet.
func TestGatheredWeightsChangeNothing(t *testing.T) {
	const most = 300 << 10 // more than any matrix takes, and less than all
	var network *Network
	copying := func(n *Network) {
		network = n
		n.copying(t)
		n.context.Graphs = opencl.NoGraphs // for which memory is rounded up
	}
	path := testutil.Shared(t, "fixtures", "llama32")
	m := load(t, path, onGPU(Processor{Opened: func(n *Network) {
		copying(n)
		n.context.Info.MaxAllocation = most
	}}))
	ids := someIDs(45, m.Spec.Vocab)
	want := teacherForced(t, m, ids)
	require.Less(t, network.one.memory.Size(), most)
	m = load(t, path, onGPU(Processor{Opened: copying}))
	require.Greater(t, network.one.memory.Size(), most)
	require.Equal(t, want, teacherForced(t, m, ids))
	held := network.context.Stats().Held
	require.Less(t, held-int64(network.one.memory.Size()), int64(most), "weights are there once")
}

package gpupass

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/internal/testutil"
)

// TestUndeclaredMLPWidth runs a model whose metadata omits the width of the MLP.
func TestUndeclaredMLPWidth(t *testing.T) {
	var network *Network
	path := testutil.Shared(t, "fixtures", "llama32")
	m := load(t, path, onGPU(Accelerator{Opened: func(n *Network) { network = n }}))
	require.Same(t, network.single.memory, network.single.hidden)
	ids := someIDs(20, m.Spec.Vocab)
	want := teacherForced(t, m, ids)
	m = load(t, path, onGPU(Accelerator{Opened: func(n *Network) { network, n.single.innerCapacity = n, 0 }}))
	require.NotSame(t, network.single.memory, network.single.hidden)
	require.Equal(t, want, teacherForced(t, m, ids))
}

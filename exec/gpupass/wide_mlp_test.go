package gpupass

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMLPsWiderThanTheSpec runs a model whose arch.Spec does not give the width of
// its MLPs.
func TestMLPsWiderThanTheSpec(t *testing.T) {
	var network *Network
	path := fixture(t, "llama32")
	m := load(t, path, onGPU(Processor{Opened: func(n *Network) { network = n }}))
	require.Same(t, network.one.memory, network.one.hidden)
	ids := someIDs(20, m.Spec.Vocab)
	want := teacherForced(t, m, ids)
	m = load(t, path, onGPU(Processor{Opened: func(n *Network) { network, n.one.innerCapacity = n, 0 }}))
	require.NotSame(t, network.one.memory, network.one.hidden)
	require.Equal(t, want, teacherForced(t, m, ids))
}

package gpupass

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestBindFailsMidway makes the driver reject an argument of the last layer while the
// kernels are bound to another sequence. The next pass of the first sequence binds all
// layers again.
func TestBindFailsMidway(t *testing.T) {
	var network *Network
	m := load(t, testutil.Shared(t, "fixtures", "llama32"), onGPU(Accelerator{Opened: func(n *Network) { network = n }}))
	ids := someIDs(21, m.Spec.Vocab)
	want := teacherForced(t, m, ids)[20]
	first, err := m.NewSequence(0)
	require.NoError(t, err)
	defer first.Close()
	logits(t, m, first, ids[:20])
	other, err := m.NewSequence(0)
	require.NoError(t, err)
	defer other.Close()

	last := network.layers[len(network.layers)-1].single.attend
	attend := last[0]
	last[0], err = network.context.Kernel("probe.cl", "", "probe") // it has one argument only
	require.NoError(t, err)
	var refused *opencl.Error
	require.ErrorAs(t, m.Extend(context.Background(), other, []int32{1}, &exec.ExtendOptions{}), &refused)
	require.NoError(t, last[0].Close())
	last[0] = attend

	near(t, want, logits(t, m, first, ids[20:])[0])
	require.Len(t, logits(t, m, other, []int32{1}), 1)
}

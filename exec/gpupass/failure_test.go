package gpupass

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/testutil"
)

// loadSmall opens a small model on the GPU and returns its network too.
func loadSmall(t *testing.T) (m *exec.Model, network *Network) {
	t.Helper()
	m = load(t, testutil.Shared(t, "fixtures", "llama32"), onGPU(Accelerator{Opened: func(n *Network) { network = n }}))
	return m, network
}

// TestFailedPassWaits makes the driver reject a kernel in the middle of a pass. The pass
// waits for the kernels before it, because the caller may free the sequence that they use.
func TestFailedPassWaits(t *testing.T) {
	m, network := loadSmall(t)
	ids := someIDs(testChunk, m.Spec.Vocab)
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	logits(t, m, s, ids)
	logits(t, m, s, ids[:1])
	for _, c := range []struct {
		name   string
		kernel **opencl.Kernel
		tokens int
	}{
		{"one token", &network.layers[1].single.attend[0], 1},
		{"batch", &network.layers[1].batch.attnNorm, testChunk},
	} {
		t.Run(c.name, func(t *testing.T) {
			kept := *c.kernel
			*c.kernel, err = network.context.Kernel("probe.cl", "", "probe") // its argument is not set
			require.NoError(t, err)
			before := network.context.Stats()
			var refused *opencl.Error
			require.ErrorAs(t, m.Extend(context.Background(), s, ids[:c.tokens], &exec.ExtendOptions{}), &refused)
			used := network.context.Stats().Since(before)
			require.Greater(t, used.Launches, int64(1), "launches of the previous layer")
			require.EqualValues(t, 1, used.Waits)
			require.NoError(t, (*c.kernel).Close())
			*c.kernel = kept
			require.Len(t, logits(t, m, s, ids[:c.tokens]), c.tokens)
		})
	}
}

// TestFailedCopyWaits makes the copy of a sequence's last layer fail. The copies of the
// other layers complete before their memory is freed.
func TestFailedCopyWaits(t *testing.T) {
	_, network := loadSmall(t)
	memory, err := network.NewSequence()
	require.NoError(t, err)
	seq := memory.(*sequence)
	require.NoError(t, seq.reserve(1, 0))
	last := len(seq.layers) - 1
	kept := seq.layers[last]
	seq.layers[last] = &opencl.Memory{} // invalid memory
	for name, try := range map[string]func() error{
		"grow": func() error { return seq.reserve(seq.capacity+1, seq.capacity) },
		"clone": func() error {
			_, err := seq.Clone()
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := network.context.Stats()
			require.Error(t, try())
			after := network.context.Stats()
			used := after.Since(before)
			require.Positive(t, used.Copies)
			require.EqualValues(t, 1, used.Waits)
			require.Equal(t, before.Held, after.Held)
		})
	}
	seq.layers[last] = kept
	require.NoError(t, seq.Close())
}

package gpupass

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/testutil"
)

// loadRecorded opens a model in device memory of its own, with the driver's graphs,
// emulated graphs, or none.
func loadRecorded(t *testing.T, name string, graphs bool) (*exec.Model, *Network) {
	t.Helper()
	var network *Network
	m := load(t, testutil.Shared(t, "fixtures", name), onGPU(Accelerator{Opened: func(n *Network) {
		network = n
		n.copying(t)
		c := n.context
		switch {
		case !graphs:
			c.Graphs = opencl.NoGraphs
		case c.OpenGraphs() != nil:
			c.Graphs = opencl.EmulatedGraphs
			c.Info.Memory = 100 << 30 // enough memory for graphs
		}
	}}))
	return m, network
}

// TestRecordedTokensAreTheSame compares sequences with and without recordings: one after
// the other, two in turns, truncated, and with another context split.
func TestRecordedTokensAreTheSame(t *testing.T) {
	plain, without := loadRecorded(t, "llama32", false)
	recording, network := loadRecorded(t, "llama32", true)
	ids := someIDs(64, plain.Spec.Vocab)
	read := func(m *exec.Model, n *Network) (all [][]float32) {
		var seqs [2]*exec.Sequence
		for i := range seqs {
			s, err := m.NewSequence(0)
			require.NoError(t, err)
			defer s.Close()
			seqs[i] = s
			all = append(all, logits(t, m, s, ids[:5+30*i])...)
		}
		some := func(s *exec.Sequence, ids []int32) {
			for i := range ids {
				all = append(all, logits(t, m, s, ids[i:i+1])...)
			}
		}
		some(seqs[0], ids[5:10])
		for i := range 3 {
			some(seqs[0], ids[10+i:11+i])
			some(seqs[1], ids[35+i:36+i])
		}
		some(seqs[1], ids[38:42])
		seqs[1].Truncate(36)
		some(seqs[1], ids[36:40])
		n.single.forcedSplit = &contextSplit{0, 3}
		some(seqs[1], ids[40:44])
		return all
	}
	require.Equal(t, read(plain, without), read(recording, network))
	require.NoError(t, network.NotRecorded())
	require.Zero(t, without.context.Stats().Graphs)
	// The first token after a change of sequence or split is not replayed. Runs of tokens:
	// five, six in turns of which the first continues a run, four, four after the
	// truncation, and four.
	require.EqualValues(t, 4+1+4+4+3, network.context.Stats().Graphs)
}

// TestUnrecordableKernel replaces a kernel by one that cannot be recorded. Passes run
// without recordings.
func TestUnrecordableKernel(t *testing.T) {
	recording, network := loadRecorded(t, "llama32", true)
	k, err := network.kernel(0, "layer.cl", "gated", network.single.hidden, network.single.inner, 0, 0)
	require.NoError(t, err)
	network.layers[0].single.gated = k
	ids := someIDs(24, recording.Spec.Vocab)
	teacherForced(t, recording, ids)
	require.ErrorContains(t, network.NotRecorded(), "gated")
	require.Zero(t, network.context.Stats().Graphs)
}

// TestRecordedTokensAllocateNothing counts the allocations of replayed tokens.
func TestRecordedTokensAllocateNothing(t *testing.T) {
	m, network := loadRecorded(t, "llama32", true)
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	reader := &exec.ExtendOptions{Each: func(int, []float32) error { return nil }}
	id := []int32{5}
	tokens := 0
	read := func() {
		tokens++
		if err := m.Extend(context.Background(), s, id, reader); err != nil {
			t.Error(err)
		}
	}
	read()
	read()
	require.Zero(t, testutil.AllocsPerRun(9, 0, read), "only the growing token list may allocate")
	require.EqualValues(t, tokens-1, network.context.Stats().Graphs, "the first token is not replayed")
}

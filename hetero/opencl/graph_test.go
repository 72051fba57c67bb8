package opencl

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// openGraphs opens a device that runs or emulates graphs.
func openGraphs(t *testing.T) *Context {
	t.Helper()
	d, _ := open(t)
	c := d.context
	if err := c.OpenGraphs(); err != nil {
		t.Logf("emulated: %v", err)
		c.Graphs = EmulatedGraphs
	}
	return c
}

// TestGraphsReplayRecordings records a matmul with the transfers of its input and its
// result. It replays the recording with other inputs after the kernel's arguments
// have changed.
func TestGraphsReplayRecordings(t *testing.T) {
	c := openGraphs(t)
	rng := rand.New(rand.NewPCG(17, 18))
	const rows, cols = 20, 4 * blockElems
	m := randomMatrix(t, rng, quant.Q8_0, rows, cols)
	p, err := c.NewWeightMatrix(false, Weights{Type: quant.Q8_0, Rows: rows, Cols: cols, Data: m.stored})
	require.NoError(t, err)
	weights := (4*(cols+rows) + unitBytes - 1) / unitBytes * unitBytes
	memory, err := c.AllocRecordable(tiering.Scratch, weights+int(p.Bytes()))
	require.NoError(t, err)
	require.NoError(t, p.MoveTo(memory, weights))
	v, err := p.NewGEMV(Input{X: memory}, Output{Y: memory, To: cols})
	require.NoError(t, err)

	var in, out []byte
	before := c.Stats()
	g, err := c.Record(func(g *Graph) error {
		var sent, read error
		in, sent = g.Send(memory, 0, 4*cols)
		launched := v.Launch()
		out, read = g.Read(memory, 4*cols, 4*rows)
		return errors.Join(sent, launched, read)
	})
	require.NoError(t, err)
	require.Zero(t, c.Stats().Since(before).Launches, "recording runs nothing")
	const resultPlace = 10 // of matvec's arguments
	require.NoError(t, v.kernel.SetInt(resultPlace, 0))
	for range 3 {
		x := randoms(rng, cols)
		copy(in, floatBytes(x))
		before := c.Stats()
		require.NoError(t, g.Launch())
		used := c.Stats().Since(before)
		require.EqualValues(t, []int64{1, 1, 1, 1, 1}, []int64{used.Graphs, used.Launches, used.Writes, used.Reads, used.Waits})
		got, err := tiering.View[float32](out, rows)
		require.NoError(t, err)
		for r := range rows {
			require.InDelta(t, m.exact(quantizedBlocks(x), r), got[r], 1e-4, "row %d", r)
		}
	}
	require.NoError(t, errors.Join(g.Close(), v.Close(), p.Close(), memory.Free()))
}

// TestUnrecordableCommands tries to record commands that cannot be recorded.
func TestUnrecordableCommands(t *testing.T) {
	d, _ := open(t)
	c := d.context
	nothing := func(*Graph) error { return nil }
	_, err := c.Record(nothing)
	require.ErrorIs(t, err, errNoGraphs, "graphs are not enabled")

	c = openGraphs(t)
	k, err := c.Kernel("probe.cl", "", "probe")
	require.NoError(t, err)
	m, err := c.Alloc(tiering.Scratch, 4096)
	require.NoError(t, err)
	require.NoError(t, k.Set(m))
	size := []int{64}
	_, err = c.Record(func(*Graph) error { return c.Launch(k, size, size) })
	require.ErrorIs(t, err, errNotRecordable)
	require.ErrorContains(t, err, "probe")
	require.NoError(t, c.Launch(k, size, size), "the recording has ended")
	require.NoError(t, errors.Join(c.Finish(), k.Close(), m.Free()))
}

func TestEnvironmentChoosesGraphs(t *testing.T) {
	for name, want := range map[string]Graphs{"": CUDAGraphs, "cuda": CUDAGraphs, "none": NoGraphs} {
		got, err := graphsOf(name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := graphsOf("emulated")
	require.ErrorContains(t, err, GraphsVariable)
	c := &Context{Graphs: NoGraphs}
	require.NoError(t, c.OpenGraphs())
	require.False(t, c.CanRecord())
	c = &Context{Graphs: CUDAGraphs}
	require.ErrorIs(t, c.OpenGraphs(), errNoGraphs, "the device is not from NVIDIA")
	require.Equal(t, NoGraphs, c.Graphs)
}

package opencl

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/quant"
	"github.com/llmrun/llmrun/tiering"
)

// TestUnusableMemoryIsNotShared removes the device's queue, so that no kernel can use
// the memory.
func TestUnusableMemoryIsNotShared(t *testing.T) {
	d, _ := open(t)
	queue := d.context.queue
	d.context.queue = 0
	shares, err := d.context.probeSharing()
	d.context.queue = queue
	require.NoError(t, err)
	require.False(t, shares)
}

// TestStagingReachesTheDevice sends mapped memory to a device that copies, and frees
// it unmapped.
func TestStagingReachesTheDevice(t *testing.T) {
	d, budget := open(t)
	c := d.context
	c.SharesMemory = false
	stage, err := c.Stage(tiering.Scratch, 4096)
	require.NoError(t, err)
	require.EqualValues(t, 4096, budget.Usage().Total)
	m, err := c.Alloc(tiering.Scratch, 4096)
	require.NoError(t, err)
	stage.Host()[7] = 9
	require.NoError(t, m.Send(0, stage, 0, 4096))
	got := make([]byte, 16)
	require.NoError(t, m.Read(0, got))
	require.EqualValues(t, 9, got[7])
	require.NoError(t, errors.Join(stage.Free(), m.Free(), c.Finish()))
	_, err = c.Measure(1 << 16)
	require.NoError(t, err)
	require.Zero(t, c.Stats().Held)
}

// TestMemoryIsLimited allocates a device's whole memory limit, both for devices that
// share the machine's memory and for others.
func TestMemoryIsLimited(t *testing.T) {
	for _, shares := range []bool{true, false} {
		c, err := Open(Options{Memory: 3 * 4096})
		need(t, err)
		c.SharesMemory = shares && c.SharesMemory
		require.EqualValues(t, 3*4096, c.Info.MaxAllocation)
		first, err := c.Alloc(tiering.Scratch, 4096)
		require.NoError(t, err)
		second, err := c.Alloc(tiering.Scratch, 2*4096)
		require.NoError(t, err)
		_, err = c.Alloc(tiering.Scratch, 1)
		var full *hetero.MemoryError
		require.ErrorAs(t, err, &full)
		require.Equal(t, hetero.MemoryError{Device: c.Info.Name, Need: 1, Held: 3 * 4096, Limit: 3 * 4096}, *full)
		require.NoError(t, errors.Join(first.Free(), second.Free(), c.Close()))
	}
}

// TestSizesArePredicted compares the memory of matmuls with the prediction.
func TestSizesArePredicted(t *testing.T) {
	d, _ := open(t)
	for _, typ := range []quant.Type{quant.F32, quant.BF16, quant.Q4_0, quant.Q4_K, quant.Q6_K, quant.Q3_K} {
		size, err := typ.RowBytes(256)
		require.NoError(t, err)
		parts := []Weights{{Type: typ, Rows: 48, Cols: 256, Bias: make([]float32, 48)}, {Type: typ, Rows: 16, Cols: 256}}
		before := SizeOf(parts...)
		for i := range parts {
			parts[i].Data = make([]byte, parts[i].Rows*size)
		}
		p, err := d.context.NewWeightMatrix(false, parts...)
		require.NoError(t, err)
		require.Equal(t, before, p.Bytes(), "%v", typ)
		require.NoError(t, p.Close())
	}
}

// TestMissingTimesAreReported requests the times of a command that the driver does
// not know. Some drivers return times even for a queue without profiling.
func TestMissingTimesAreReported(t *testing.T) {
	d, _ := open(t)
	c := d.context
	require.NoError(t, c.SetTrace(trace.New()))
	require.NoError(t, c.SetTrace(nil))
	require.Zero(t, c.Stats().Held)
	r := trace.New()
	c.tracer = &tracer{
		context: c, recorder: r, lane: r.Lane("device", "queue"), host: r.Lane("host", "waits"),
		pending: []tracedCommand{{name: "unknown"}},
	}
	var refused *Error
	require.ErrorAs(t, c.SetTrace(nil), &refused)
	require.Equal(t, "clGetEventProfilingInfo", refused.Call)
}

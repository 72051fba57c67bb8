package gpupass

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestContextSplitsAgree computes tokens with several splits of the context. The weights
// are floats, so that no input is quantized and only the order of sums differs.
func TestContextSplitsAgree(t *testing.T) {
	var network *Network
	const chunk = 64
	m := load(t, testutil.Shared(t, "fixtures", "llama32"), exec.Options{Chunk: chunk, Accelerator: Accelerator{Opened: func(n *Network) {
		network, n.single.sizes = n, []int{32, smallGroup, largeGroup, 2 * largeGroup}
	}}})
	ids := someIDs(5*chunk+3, m.Spec.Vocab)
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	logits(t, m, s, ids[:5*chunk])
	var want [][]float32
	for _, d := range []contextSplit{{1, 1}, {1, 2}, {1, 3}, {1, maxSplits}, {0, 1}, {0, 11}, {2, 1}, {2, 2}, {3, 1}, {3, 3}} {
		network.single.forcedSplit = &d
		s.Truncate(5 * chunk)
		var got [][]float32
		for _, id := range ids[5*chunk:] {
			got = append(got, logits(t, m, s, []int32{id})[0])
		}
		if want == nil {
			want = got
		}
		for i := range want {
			testutil.RequireNear(t, want[i], got[i], 1e-3*spread(want[i]), "%+v, token %d", d, i)
		}
	}
}

// TestGroupSizesBeyondDevice offers group sizes beyond the device's limit. Attention omits
// them.
func TestGroupSizesBeyondDevice(t *testing.T) {
	var network *Network
	path := testutil.Shared(t, "fixtures", "llama32")
	m := load(t, path, onGPU(Accelerator{Opened: func(n *Network) { network = n }}))
	ids := someIDs(20, m.Spec.Vocab)
	want := teacherForced(t, m, ids)
	few := []int{smallGroup}
	m = load(t, path, onGPU(Accelerator{Opened: func(n *Network) {
		network, n.single.sizes = n, append(few, 2*n.context.Info.MaxGroup)
	}}))
	require.Equal(t, want, teacherForced(t, m, ids))
	require.Equal(t, few, network.single.sizes)
}

// TestSplitFor checks the context splits of devices from phones to servers.
func TestSplitFor(t *testing.T) {
	const server, phone = 132, 12
	for _, c := range []struct {
		units, heads, tokens int
		want                 contextSplit
	}{
		{server, 12, 1, contextSplit{0, 1}},
		{server, 12, smallGroup, contextSplit{0, 1}},
		{server, 12, smallGroup + 1, contextSplit{0, 2}},
		{server, 12, 2*smallGroup + 1, contextSplit{1, 2}},
		{server, 12, 2049, contextSplit{1, 9}},
		{server, 12, 32768, contextSplit{1, 11}},
		{server, 64, 32768, contextSplit{1, 2}},
		{server, 1, 1 << 17, contextSplit{1, maxSplits}},
		{phone, 32, 2049, contextSplit{1, 1}},
		{phone, 4, 200, contextSplit{0, 2}},
	} {
		n := &Network{spec: &arch.Spec{Heads: c.heads}, context: &opencl.Context{Info: opencl.Info{ComputeUnits: c.units}}}
		n.single.sizes = []int{smallGroup, largeGroup}
		require.Equal(t, c.want, n.splitFor(c.tokens), "%+v", c)
	}
}

// TestAttendGroups checks the group sizes of attention on several devices.
func TestAttendGroups(t *testing.T) {
	for _, c := range []struct {
		info opencl.Info
		head int
		want []int
	}{
		{opencl.Info{Kind: "GPU", MaxGroup: 1024, LocalMemory: 48 << 10}, 128, []int{128, 256}},
		{opencl.Info{Kind: "GPU", MaxGroup: 1024, LocalMemory: 48 << 10}, maxHeadDim, []int{128, 256}},
		{opencl.Info{Kind: "GPU", MaxGroup: 1024, LocalMemory: 16 << 10}, 128, []int{128}},
		{opencl.Info{Kind: "GPU", MaxGroup: 256, LocalMemory: 64 << 10}, 128, []int{128, 256}},
		{opencl.Info{Kind: "GPU", MaxGroup: 128, LocalMemory: 32 << 10}, 128, []int{128}},
		{opencl.Info{Kind: "CPU", MaxGroup: 4096, LocalMemory: 1 << 20}, 128, []int{128}},
	} {
		n := &Network{spec: &arch.Spec{HeadDim: c.head}, context: &opencl.Context{Info: c.info}}
		require.Equal(t, c.want, n.attendGroups(), "%+v", c)
	}
}

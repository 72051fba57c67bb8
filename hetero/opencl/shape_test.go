package opencl

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestShapesFitTheDevice checks the work partition of matmuls of several models on
// devices from phones to servers.
func TestShapesFitTheDevice(t *testing.T) {
	for _, info := range []Info{
		{Kind: "GPU", ComputeUnits: 132, MaxGroup: 1024, LocalMemory: 48 << 10},
		{Kind: "GPU", ComputeUnits: 64, MaxGroup: 1024, LocalMemory: 32 << 10},
		{Kind: "GPU", ComputeUnits: 16, MaxGroup: 512, LocalMemory: 32 << 10},
		{Kind: "GPU", ComputeUnits: 3, MaxGroup: 256, LocalMemory: 16 << 10},
		{Kind: "CPU", ComputeUnits: 2, MaxGroup: 4096, LocalMemory: 1 << 20},
	} {
		c := &Context{Info: info}
		for _, size := range [][2]int{{1536, 1536}, {17920, 1536}, {1536, 8960}, {151936, 1536}, {4096, 14336}, {28672, 4096}, {8, 32}} {
			for f := Codes4; f <= Float; f++ {
				p := &WeightMatrix{context: c, Rows: size[0], Cols: size[1], Format: f}
				s := p.shape()
				require.LessOrEqual(t, s.rows*s.lanes, info.MaxGroup, "%+v", s)
				require.Zero(t, s.rows%2, "pairs of rows are in one group")
				require.Zero(t, s.rows*s.lanes%4, "four work items share a block")
				require.LessOrEqual(t, p.localBytes(s), info.LocalMemory, "%+v", s)
				require.Positive(t, s.lanes)
				require.Positive(t, s.depth)
				require.Positive(t, p.groups(s))
				require.LessOrEqual(t, (p.groups(s)-1)*s.rows, p.Rows)
			}
		}
	}
	// Measured on 132 compute units, see docs/results/gpu.md.
	c := &Context{Info: Info{Kind: "GPU", ComputeUnits: 132, MaxGroup: 1024, LocalMemory: 48 << 10}}
	for size, want := range map[[2]int]gemvShape{
		{2048, 1536}:   {rows: 16, lanes: 16, depth: 3},
		{1536, 1536}:   {rows: 12, lanes: 16, depth: 3},
		{17920, 1536}:  {rows: 32, lanes: 8, depth: 6},
		{1536, 8960}:   {rows: 12, lanes: 70, depth: 4},
		{151936, 1536}: {rows: 32, lanes: 8, depth: 6},
	} {
		require.Equal(t, want, (&WeightMatrix{context: c, Rows: size[0], Cols: size[1], Format: Codes4}).shape(), "%v", size)
	}
}

// TestShapesShrink checks limits below the device's: a driver may allow a kernel
// fewer work items.
func TestShapesShrink(t *testing.T) {
	for _, s := range []gemvShape{{rows: 12, lanes: 70, depth: 4}, {rows: 32, lanes: 8, depth: 6}, {rows: 8, lanes: 1, depth: 1}} {
		p := &WeightMatrix{Format: Codes4}
		for most := rowStep; most <= s.rows*s.lanes; most++ {
			less, err := s.limitGroup(most)
			require.NoError(t, err)
			require.LessOrEqual(t, less.rows*less.lanes, most)
			require.Positive(t, less.lanes)
			require.Positive(t, less.rows)
			require.Zero(t, less.rows%rowStep)
			require.LessOrEqual(t, p.localBytes(less), p.localBytes(s))
		}
		_, err := s.limitGroup(rowStep - 1)
		require.ErrorContains(t, err, "work-groups are limited to 3 ")
	}
}

// TestNVIDIAGroupLimitIsIgnored checks that the group limit of NVIDIA's driver is not
// used: the driver reports less than it runs.
func TestNVIDIAGroupLimitIsIgnored(t *testing.T) {
	k := &Kernel{context: &Context{Info: Info{MaxGroup: 1024, nvidia: true}}}
	most, err := k.MaxGroup()
	require.NoError(t, err)
	require.Equal(t, 1024, most)
}

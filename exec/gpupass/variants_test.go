package gpupass

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero/opencl"
)

// TestImagesChangeNothing computes a sequence with weights in buffers and in
// images.
func TestImagesChangeNothing(t *testing.T) {
	var network *Network
	processor := Processor{Opened: func(n *Network) { network = n }}
	path := fixture(t, "llama32")
	m := load(t, path, onGPU(processor))
	if network.context.Info.ImageUnits == 0 {
		t.Skip("the device has no images over buffers")
	}
	ids := someIDs(24, m.Spec.Vocab)
	want := teacherForced(t, m, ids)
	require.Zero(t, network.context.Stats().Images)
	t.Setenv(opencl.WeightsVariable, opencl.Images.String())
	m = load(t, path, onGPU(processor))
	require.Equal(t, want, teacherForced(t, m, ids))
	require.Greater(t, network.context.Stats().Images, int64(len(m.Spec.Layers)))
}

// TestPromptsInFewerBits computes a prompt in half precision and as tensor cores
// do, natively or emulated. The reference is the same device in floats: the CPU
// differs nearly as much from both.
func TestPromptsInFewerBits(t *testing.T) {
	path := fixture(t, "llama32")
	inArithmetic := func(choose func(*opencl.Info) opencl.Arithmetic) [][]float32 {
		m := load(t, path, onGPU(Processor{Opened: func(n *Network) { n.context.Arithmetic = choose(&n.context.Info) }}))
		return teacherForced(t, m, someIDs(45, m.Spec.Vocab))
	}
	want := inArithmetic(func(*opencl.Info) opencl.Arithmetic { return opencl.Floats })
	same(t, want, inArithmetic(func(i *opencl.Info) opencl.Arithmetic {
		if i.Half {
			return opencl.Halves
		}
		return opencl.EmulatedHalves
	}))
	same(t, want, inArithmetic(func(i *opencl.Info) opencl.Arithmetic {
		if i.Tensors {
			return opencl.Tensors
		}
		return opencl.EmulatedTensors
	}))
}

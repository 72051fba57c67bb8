package gpupass

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/testutil"
)

// TestImagesChangeNothing compares weights in buffers with weights in images.
func TestImagesChangeNothing(t *testing.T) {
	var network *Network
	accelerator := Accelerator{Opened: func(n *Network) { network = n }}
	path := testutil.Shared(t, "fixtures", "llama32")
	m := load(t, path, onGPU(accelerator))
	if network.context.Info.ImageUnits == 0 {
		t.Skip("the device has no images over buffers")
	}
	ids := someIDs(24, m.Spec.Vocab)
	want := teacherForced(t, m, ids)
	require.Zero(t, network.context.Stats().Images)
	t.Setenv(opencl.WeightsVariable, opencl.Images.String())
	m = load(t, path, onGPU(accelerator))
	require.Equal(t, want, teacherForced(t, m, ids))
	require.Greater(t, network.context.Stats().Images, int64(len(m.Spec.Layers)))
}

// TestPromptsInFewerBits compares prompts in half precision and in tensor-unit arithmetic,
// native or emulated, with float32 on the same device. The CPU's logits differ from all of
// them by nearly as much.
func TestPromptsInFewerBits(t *testing.T) {
	path := testutil.Shared(t, "fixtures", "llama32")
	inArithmetic := func(choose func(*opencl.Info) opencl.Arithmetic) [][]float32 {
		m := load(t, path, onGPU(Accelerator{Opened: func(n *Network) { n.context.Arithmetic = choose(&n.context.Info) }}))
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

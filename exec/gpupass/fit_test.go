package gpupass

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// TestLastLayersMatchTheCPU computes every number of last layers but all on the device, and
// the others on the CPU: prompts in chunks, then single tokens.
func TestLastLayersMatchTheCPU(t *testing.T) {
	for _, name := range []string{"llama32", "qwen2", "gemma", "phi3_longrope"} {
		path := testutil.Shared(t, "fixtures", name)
		cpu := load(t, path, exec.Options{})
		ids := someIDs(45, cpu.Spec.Vocab)
		want := teacherForced(t, cpu, ids)
		all := len(cpu.Spec.Layers)
		for layers := 1; layers < all; layers++ {
			m := load(t, path, onGPU(Accelerator{Layers: layers}))
			require.Equal(t, all-layers, m.Placement().First, name)
			require.Equal(t, all, m.Placement().Layers)
			same(t, want, teacherForced(t, m, ids))
		}
	}
}

// TestQuantizedLastLayers does the same with quantized weights, which the CPU's layers
// store in tiles, without Exact.
func TestQuantizedLastLayers(t *testing.T) {
	path := testutil.Shared(t, "gguf", "tiny-llama-q4_k_m.gguf")
	cpu := load(t, path, exec.Options{})
	ids := someIDs(45, cpu.Spec.Vocab)
	m := open(t, path, exec.Options{Accelerator: Accelerator{Layers: 1}, Chunk: testChunk, KV: kv.K8V8})
	same(t, teacherForced(t, cpu, ids), teacherForced(t, m, ids))
}

// offered is an Accelerator that records the memory plan of its network.
type offered struct {
	Accelerator
	// opened runs before the plan is made, and counted afterwards; both may be nil.
	opened, counted func(*Network)
	fitting         *memoryPlan
}

func (p *offered) Open(o *exec.Offer) (exec.Network, error) {
	p.Opened = func(n *Network) {
		if p.opened != nil {
			p.opened(n)
		}
		p.fitting = n.planMemory(o)
		if p.counted != nil {
			p.counted(n)
		}
	}
	return p.Accelerator.Open(o)
}

// TestLayersByMemory gives the device exactly the memory that each number of layers needs,
// and one byte less. The planned memory suffices for a sequence of the whole context.
func TestLayersByMemory(t *testing.T) {
	path := testutil.Shared(t, "fixtures", "llama32")
	const length = 512 // the model's context
	measured := &offered{Accelerator: Accelerator{Layers: All}}
	_, err := place(t, path, measured)
	require.NoError(t, err)
	f := measured.fitting
	all := len(f.layers)
	for layers := 1; layers <= all; layers++ {
		least, _ := f.total(all-layers, length)
		got, err := place(t, path, Accelerator{Layers: layers, Memory: least})
		require.NoError(t, err)
		require.Equal(t, exec.Placement{
			Device: got.Device, First: all - layers, Layers: all, Context: length,
			Held: got.Held, Need: least, Memory: least, HostBytes: got.HostBytes,
			HostBuffers: got.HostBuffers, HostKVPerToken: got.HostKVPerToken, HostUpload: got.HostUpload, SharesMemory: got.SharesMemory,
		}, got)
		requireTooLittle(t, path, Accelerator{Layers: layers, Memory: least - 1}, layers)
		if less := (Accelerator{Memory: withSpare(least) - 1}); layers == 1 {
			requireTooLittle(t, path, less, layers)
		} else {
			got, err = place(t, path, less)
			require.NoError(t, err)
			require.Equal(t, all-layers+1, got.First)
		}

		var network *Network
		budget := tiering.New(0)
		o := onGPU(Accelerator{Memory: withSpare(least), Opened: func(n *Network) { network = n }})
		o.Budget, o.Context = budget, length
		m := load(t, path, o)
		require.Equal(t, all-layers, m.Placement().First)
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		require.Len(t, logits(t, m, s, someIDs(length, m.Spec.Vocab)), length)
		held := network.context.Stats().Held
		require.LessOrEqual(t, held, least)
		require.Equal(t, held, m.Placement().Held)
		if network.context.SharesMemory { // all buffers are the host's memory
			host := m.Placement()
			require.LessOrEqual(t, held, host.HostBuffers+length*host.HostKVPerToken)
			require.Less(t, budget.Usage().By[tiering.Scratch], host.HostBuffers)
		}
		s.Close()
	}
	got, err := place(t, path, Accelerator{Layers: all + 70})
	require.NoError(t, err)
	require.Zero(t, got.First, "more layers than the model has")
}

// TestMemoryPlanWithStaging runs a sequence of the whole context on a device that copies
// through staging memory, with little memory or much.
func TestMemoryPlanWithStaging(t *testing.T) {
	for _, times := range []int64{1, 100} {
		var network *Network
		var least int64
		p := &offered{Accelerator: Accelerator{Layers: All}}
		p.opened = func(n *Network) {
			network, n.context.SharesMemory = n, false
			require.NoError(t, n.releaseFrom(0))
			require.NoError(t, n.allocateSingle())
		}
		p.counted = func(n *Network) {
			least, _ = p.fitting.total(0, n.spec.Context)
			n.context.Info.Memory = times * least
		}
		m := load(t, testutil.Shared(t, "fixtures", "llama32"), exec.Options{Accelerator: p})
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		logits(t, m, s, someIDs(m.Spec.Context, m.Spec.Vocab))
		require.LessOrEqual(t, network.context.Stats().Held, least)
		s.Close()
	}
}

// place plans a model on an accelerator, and checks that this reads no weights and frees
// everything.
func place(t *testing.T, path string, p exec.Accelerator) (exec.Placement, error) {
	t.Helper()
	f, err := modelfile.Open(vfs.OS(), path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	budget := tiering.New(0)
	got, err := exec.PlaceLayers(f, exec.Options{Accelerator: p, KV: kv.K8V8, Chunk: testChunk, Budget: budget})
	if errors.Is(err, opencl.ErrNotBuilt) || errors.Is(err, opencl.ErrNoDriver) {
		t.Skip(err)
	}
	require.NoError(t, budget.Check())
	require.Zero(t, budget.Usage().Peak[tiering.Pinned])
	return got, err
}

// withSpare returns a device memory that has the given usable bytes if the caller does
// not set the number of layers.
func withSpare(bytes int64) int64 {
	memory := bytes
	for memory-memory/spareFraction < bytes {
		memory++
	}
	return memory
}

// requireTooLittle checks the error for a device with too little memory.
func requireTooLittle(t *testing.T, path string, p Accelerator, layers int) {
	t.Helper()
	_, err := place(t, path, p)
	var small *hetero.MemoryError
	require.ErrorAs(t, err, &small)
	require.Greater(t, small.Need+small.Held, small.Limit)
	advice := "run on the CPU"
	if layers > 1 {
		advice = fmt.Sprintf("%d layers fit", layers-1)
	}
	require.ErrorContains(t, err, advice)
}

// TestLongestContext plans contexts of different lengths beside all layers.
func TestLongestContext(t *testing.T) {
	f := &memoryPlan{memory: 1 << 40, maxBuffer: 1 << 40, fixed: 1000, layers: []layerBytes{{weights: 100, maxPiece: 60, token: 2}, {weights: 100, maxPiece: 70, token: 4}}}
	require.Equal(t, 1<<17, f.longest(0, minContext, 1<<17))
	f.memory, _ = f.total(0, 10000)
	longest := f.longest(0, minContext, 1<<17)
	require.GreaterOrEqual(t, longest, 10000-blockTokens)
	require.True(t, f.fits(0, longest))
	require.False(t, f.fits(0, longest+blockTokens))
	require.Equal(t, 0, f.first(2, longest))
	require.Equal(t, 1, f.first(1, longest))

	f.memory = 1 << 40
	f.maxBuffer = 69
	require.Equal(t, 2, f.first(2, 1), "a matrix exceeds the largest buffer")
	f.maxBuffer = 4*minContext - 1
	require.Equal(t, 2, f.first(2, minContext), "keys and values exceed the largest buffer")
	require.Zero(t, f.first(2, minContext/2))
}

// TestSequenceGrowthWithinPlan grows sequences by chunks and by tokens, and checks that
// they stay within the planned memory.
func TestSequenceGrowthWithinPlan(t *testing.T) {
	f := &memoryPlan{layers: []layerBytes{{token: 1}}}
	for context := 1; context < 5000; context += 37 {
		predicted, piece := f.total(0, context)
		for _, step := range []int{1, 16, 512, context} {
			room, most := 0, 0
			for have := 0; have < context; {
				have = min(have+step, context)
				if have > room {
					before := room
					room = grownCapacity(room, have, context)
					most = max(most, before+room)
				}
			}
			require.LessOrEqual(t, int64(most), predicted, "%d tokens by %d", context, step)
			require.LessOrEqual(t, int64(room), piece)
		}
	}
}

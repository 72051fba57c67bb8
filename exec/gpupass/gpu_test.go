package gpupass

import (
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/arch"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/hetero/opencl"
	"github.com/llmrun/llmrun/internal/testutil"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/tiering"
)

// testChunk is so small that a text has several chunks, the last one partial.
const testChunk = 16

// load opens a model, on the GPU or in exact arithmetic on the CPU.
func load(t testing.TB, path string, o exec.Options) *exec.Model {
	t.Helper()
	o.Chunk, o.KV, o.Exact = cmp.Or(o.Chunk, testChunk), kv.K8V8, true
	return open(t, path, o)
}

// open opens a model and checks at the end of the test that it freed everything. It skips
// the test without a driver.
func open(t testing.TB, path string, o exec.Options) *exec.Model {
	t.Helper()
	f, err := modelfile.Open(vfs.OS(), path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	o.Budget = tiering.New(0)
	m, err := exec.Load(context.Background(), f, o)
	if errors.Is(err, opencl.ErrNotBuilt) || errors.Is(err, opencl.ErrNoDriver) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		m.Close()
		require.NoError(t, o.Budget.Check())
	})
	return m
}

// The tests compare prompts in float32 unless the environment selects another arithmetic.
// TestPromptsInFewerBits compares the other arithmetics with it.
func init() {
	if os.Getenv(opencl.ArithmeticVariable) == "" {
		_ = os.Setenv(opencl.ArithmeticVariable, opencl.Floats.String())
	}
}

// onGPU returns the options for a model on the GPU.
func onGPU(p Accelerator) exec.Options { return exec.Options{Accelerator: p} }

// logits runs tokens and returns the logits after each.
func logits(t testing.TB, m *exec.Model, s *exec.Sequence, ids []int32) (out [][]float32) {
	t.Helper()
	require.NoError(t, m.Extend(context.Background(), s, ids, &exec.ExtendOptions{
		Want: func(int) bool { return true },
		Each: func(_ int, l []float32) error {
			out = append(out, append([]float32(nil), l...))
			return nil
		},
	}))
	return out
}

// teacherForced runs tokens, the first ones in chunks and the others one by one.
func teacherForced(t testing.TB, m *exec.Model, ids []int32) [][]float32 {
	t.Helper()
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	var out [][]float32
	for _, part := range forced(ids) {
		out = append(out, logits(t, m, s, part)...)
	}
	return out
}

// forced cuts tokens into a prompt and single tokens.
func forced(ids []int32) (parts [][]int32) {
	prompt := len(ids) * 2 / 3
	parts = append(parts, ids[:prompt])
	for i := prompt; i < len(ids); i++ {
		parts = append(parts, ids[i:i+1])
	}
	return parts
}

// tolerance is the allowed difference to the CPU's logits, as a fraction of their spread.
// Both quantize keys and values to 8 bits. The CPU also quantizes queries and attention
// weights, which causes most of the difference.
const tolerance = 0.3

// same compares logits, and the chosen tokens where the two best logits differ by more than
// the tolerance.
func same(t testing.TB, want, got [][]float32) {
	t.Helper()
	require.Len(t, got, len(want))
	worst, decided := 0.0, 0
	for i := range want {
		allowed := tolerance * spread(want[i])
		for j, v := range want[i] {
			off := math.Abs(float64(v - got[i][j]))
			worst = max(worst, off/spread(want[i]))
			if !(off <= allowed) {
				t.Fatalf("token %d: logit %d is %g, on the CPU %g ± %g", i, j, got[i][j], v, allowed)
			}
		}
		first, second := best(want[i])
		if float64(want[i][first]-want[i][second]) > 2*allowed {
			decided++
			if chosen, _ := best(got[i]); chosen != first {
				t.Fatalf("token %d: the choice is %d, on the CPU %d", i, chosen, first)
			}
		}
	}
	require.Positive(t, decided)
	t.Logf("%d tokens, %d with a clear choice; logits differ by up to %.2g of their spread", len(want), decided, worst)
}

// spread returns the standard deviation of logits.
func spread(x []float32) float64 {
	mean, squares := 0.0, 0.0
	for _, v := range x {
		mean += float64(v) / float64(len(x))
	}
	for _, v := range x {
		squares += (float64(v) - mean) * (float64(v) - mean) / float64(len(x))
	}
	return math.Sqrt(squares)
}

// best returns the tokens of the two largest logits.
func best(x []float32) (first, second int) {
	first, second = 0, 1
	for i, v := range x {
		switch {
		case v > x[first]:
			first, second = i, first
		case i != first && (v > x[second] || second == first):
			second = i
		}
	}
	return first, second
}

// someIDs returns token ids of a vocabulary.
func someIDs(n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((i*i*31 + 7*i + 3) % vocab)
	}
	return ids
}

func TestFamiliesMatchTheCPU(t *testing.T) {
	for _, name := range []string{"llama2", "llama3", "llama32", "mistral", "qwen2", "qwen2_yarn", "qwen3", "smollm3", "granite", "gemma", "internlm2", "phi3", "phi3_longrope"} {
		t.Run(name, func(t *testing.T) { matches(t, testutil.Shared(t, "fixtures", name)) })
	}
}

func TestQuantizedFilesMatchTheCPU(t *testing.T) {
	for _, name := range []string{"llama-q4_0", "llama-q4_1", "llama-q5_0", "llama-q5_1", "llama-q8_0", "llama-q4_k_m", "llama-q5_k_s", "llama-q6_k", "llama-q3_k_s", "llama-f16", "qwen2-q4_k_m"} {
		t.Run(name, func(t *testing.T) { matches(t, testutil.Shared(t, "gguf", "tiny-"+name+".gguf")) })
	}
}

func matches(t *testing.T, path string) {
	gpu := load(t, path, onGPU(Accelerator{}))
	cpu := load(t, path, exec.Options{})
	ids := someIDs(45, cpu.Spec.Vocab)
	same(t, teacherForced(t, cpu, ids), teacherForced(t, gpu, ids))
}

// TestSequencesAreIndependent runs a sequence and its fork in turns, and truncates one.
func TestSequencesAreIndependent(t *testing.T) {
	m := load(t, testutil.Shared(t, "fixtures", "llama32"), onGPU(Accelerator{}))
	ids := someIDs(40, m.Spec.Vocab)
	want := teacherForced(t, m, ids)
	a, err := m.NewSequence(0)
	require.NoError(t, err)
	defer a.Close()
	logits(t, m, a, ids[:20])
	b, err := a.Fork()
	require.NoError(t, err)
	defer b.Close()
	logits(t, m, a, []int32{1, 2, 3})
	got := logits(t, m, b, ids[20:21])
	near(t, want[20], got[0])
	require.Equal(t, 20, a.Truncate(20))
	near(t, want[20], logits(t, m, a, ids[20:21])[0])
	near(t, want[39], logits(t, m, b, ids[21:])[18])
}

// near compares logits of the same device, which sums in another order in chunks of another
// length.
func near(t *testing.T, want, got []float32) {
	t.Helper()
	testutil.RequireNear(t, want, got, tolerance*spread(want)/2, "logits")
}

func TestUnsupportedFamilies(t *testing.T) {
	for _, name := range []string{"gemma3", "lfm2", "qwen2_moe"} {
		f, err := modelfile.Open(vfs.OS(), testutil.Shared(t, "fixtures", name))
		require.NoError(t, err)
		_, err = exec.Load(context.Background(), f, exec.Options{Accelerator: Accelerator{}, KV: kv.K8V8})
		require.ErrorIs(t, err, arch.ErrUnsupported, name)
		require.ErrorContains(t, err, "CPU", "advice")
		require.NoError(t, f.Close())
	}
}

// TestPassesAllocateNothing counts the allocations and driver calls of a token, with all
// layers or the last one on the device.
func TestPassesAllocateNothing(t *testing.T) {
	for _, layers := range []int{All, 1} {
		var network *Network
		m := load(t, testutil.Shared(t, "fixtures", "llama32"), onGPU(Accelerator{Layers: layers, Opened: func(n *Network) { network = n }}))
		s, err := m.NewSequence(0)
		require.NoError(t, err)
		reader := &exec.ExtendOptions{Each: func(int, []float32) error { return nil }}
		id := []int32{5}
		require.NoError(t, m.Extend(context.Background(), s, id, reader))
		before := network.Context().Stats()
		tokens := 0
		allocs := testutil.AllocsPerRun(9, 0, func() {
			tokens++
			if err := m.Extend(context.Background(), s, id, reader); err != nil {
				t.Error(err)
			}
		})
		require.Zero(t, allocs, "only the growing token list may allocate")
		used := network.Context().Stats().Since(before)
		require.EqualValues(t, tokens*(5*min(layers, len(m.Spec.Layers))+1), used.Launches)
		require.EqualValues(t, tokens, used.Waits)
		require.Zero(t, used.Arguments)
		require.LessOrEqual(t, used.Writes+used.Reads, int64(2*tokens), "the input row and the logits")
		s.Close()
	}
}

// TestFailedAllocationFreesAll makes the allocation for prompts fail twice and then
// succeed.
func TestFailedAllocationFreesAll(t *testing.T) {
	var network *Network
	m := load(t, testutil.Shared(t, "fixtures", "llama32"), onGPU(Accelerator{Opened: func(n *Network) { network = n }}))
	s, err := m.NewSequence(0)
	require.NoError(t, err)
	defer s.Close()
	limit := &network.context.Info.MaxAllocation
	most, owned, held := *limit, len(network.owned), network.context.Stats().Held
	*limit = int64(4*2*testChunk*network.layers[0].down.Cols) - 1
	ids := someIDs(testChunk, m.Spec.Vocab)
	for range 2 {
		var full *hetero.MemoryError
		require.ErrorAs(t, m.Extend(context.Background(), s, ids, &exec.ExtendOptions{}), &full)
		require.Len(t, network.owned, owned)
		require.Equal(t, held, network.context.Stats().Held)
		require.Zero(t, network.batch)
	}
	*limit = most
	require.Len(t, logits(t, m, s, ids), len(ids))
	require.Len(t, network.Input(testChunk+1), (testChunk+1)*m.Spec.Dim)
	seq, err := network.NewSequence()
	require.NoError(t, err)
	require.ErrorIs(t, network.Read(context.Background(), seq, &exec.Chunk{Tokens: testChunk + 1}), errChunkTooLarge)
	require.Len(t, logits(t, m, s, ids), len(ids))
}
